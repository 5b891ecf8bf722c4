#include "os/file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "temp_dir.h"

namespace strata {
namespace {

using std::filesystem::create_directory;

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void expect_failure(const Status& status, Code code, const std::string& part) {
  EXPECT_EQ(code_name(status.code()), std::string(code_name(code))) << status.text();
  EXPECT_NE(status.text().find(part), std::string::npos) << status.text();
}

// Files may not grow beyond `bytes` while this lives: what a full disk looks like to the writer, on any machine.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const TempDir dir;
  const std::string path = dir.put("a.bin", std::string("one\0two", 7));
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().text();
  EXPECT_EQ(text_of(**file), std::string_view("one\0two", 7));
  EXPECT_EQ((*file)->path(), path);
}

TEST(MappedFile, GivesEachFailureItsOwnMessage) {
  const TempDir dir;
  const std::string missing = dir.path("missing.gguf");
  expect_failure(MappedFile::open(missing).status(), Code::not_found, missing + ": no such file");
  expect_failure(MappedFile::open(dir.path("nowhere/a")).status(), Code::not_found, "nowhere is not a directory");
  expect_failure(MappedFile::open(dir.put("f", "x") + "/a").status(), Code::not_found, "is not a directory");
  expect_failure(MappedFile::open("").status(), Code::invalid_argument, "file name is empty");
  expect_failure(MappedFile::open(std::string("a\0b", 3)).status(), Code::invalid_argument, "zero byte");
  expect_failure(MappedFile::open(dir.path("")).status(), Code::invalid_argument,
                 "is a directory, expected a regular file");
  expect_failure(MappedFile::open("/dev/null").status(), Code::invalid_argument, "is a device");
  expect_failure(MappedFile::open(dir.put("empty", "")).status(), Code::corrupt, "empty (0 bytes)");
  const std::string loop = dir.path("loop");
  ASSERT_EQ(::symlink(loop.c_str(), loop.c_str()), 0);
  expect_failure(MappedFile::open(loop).status(), Code::io, loop + ": cannot be read: ");
  expect_failure(MappedFile::open(dir.path(std::string(300, 'n'))).status(), Code::io, "cannot be read: ");
}

TEST(MappedFile, DoesNotWaitForTheWriterOfAPipeOrTouchASocket) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo(dir.path("pipe").c_str(), 0600), 0);
  expect_failure(MappedFile::open(dir.path("pipe")).status(), Code::invalid_argument, "is a pipe");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = dir.path("socket");
  ASSERT_LT(name.size(), sizeof address.sun_path);
  name.copy(address.sun_path, name.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  expect_failure(MappedFile::open(name).status(), Code::invalid_argument, "is a socket");
  ::close(fd);
}

TEST(MappedFile, NamesMissingPermission) {
  if (::geteuid() == 0) {
    // Permissions do not bind this user; another one has to ask.
    const TempDir dir;
    ::chmod(dir.path("").c_str(), 0755);
    const std::string path = dir.put("secret", "x");
    ASSERT_EQ(::chmod(path.c_str(), 0), 0);
    ASSERT_EQ(::seteuid(65534), 0);
    const Status status = MappedFile::open(path).status();
    const Status written = write_whole(dir.path("new"), "x");
    ASSERT_EQ(::seteuid(0), 0);
    expect_failure(status, Code::io, path + ": no permission to read it");
    expect_failure(written, Code::io, "no permission to write in");
    return;
  }
  const TempDir dir;
  const std::string path = dir.put("secret", "x");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  expect_failure(MappedFile::open(path).status(), Code::io, path + ": no permission to read it");
}

TEST(MappedFile, NoticesThatTheFileWasReplacedGrownTouchedOrRemoved) {
  const TempDir dir;
  const std::string path = dir.put("m", "first");
  const auto open = [&] { return MappedFile::open(path).value(); };
  auto file = open();
  EXPECT_TRUE(file->unchanged().ok());
  dir.put("n", "other");
  std::filesystem::rename(dir.path("n"), path);
  expect_failure(file->unchanged(), Code::io, path + ": the file was replaced");
  EXPECT_EQ(text_of(*file), "first") << "the map keeps the old file alive";
  file = open();
  std::ofstream(path, std::ios::app) << "more";
  expect_failure(file->unchanged(), Code::io, "was 5 bytes and is now 9");
  file = open();
  const timespec past[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), past, 0), 0);
  expect_failure(file->unchanged(), Code::io, "written to while it was in use");
  file = open();
  std::filesystem::remove(path);
  expect_failure(file->unchanged(), Code::io, "was removed");
}

TEST(MappedFile, AdviceNeverChangesWhatIsRead) {
  const TempDir dir;
  const std::string bytes(50000, 'z');
  const auto file = MappedFile::open(dir.put("a", bytes)).value();
  for (const Access access :
       {Access::normal, Access::random, Access::sequential, Access::will_need, Access::not_needed}) {
    file->advise(0, bytes.size(), access);
    file->advise(4097, 5000, access);
    file->advise(49999, SIZE_MAX, access);
    file->advise(SIZE_MAX, SIZE_MAX, access);
    file->advise(10, 0, access);
    EXPECT_EQ(text_of(*file), bytes);
  }
}

TEST(ReadWhole, ReadsUpToTheLimitAndRefusesMore) {
  const TempDir dir;
  const std::string path = dir.put("a", "12345");
  EXPECT_EQ(read_whole(path, 5).value(), "12345");
  expect_failure(read_whole(path, 4).status(), Code::out_of_range, path + ": 5 bytes, at most 4 are accepted");
  EXPECT_EQ(read_whole(dir.put("empty", ""), 0).value(), "");
  expect_failure(read_whole(dir.path("no"), 9).status(), Code::not_found, "no such file");
  expect_failure(read_whole(dir.path(""), 9).status(), Code::invalid_argument, "is a directory");
  expect_failure(read_whole("/dev/zero", 9).status(), Code::invalid_argument, "is a device");
  const std::string large(300000, 'q');
  EXPECT_EQ(read_whole(dir.put("large", large), SIZE_MAX).value(), large);
}

TEST(ReadWhole, ReadsAFileThatClaimsToHaveNoSize) {
  EXPECT_FALSE(read_whole("/proc/self/status", 1 << 20).value().empty());
  expect_failure(read_whole("/proc/self/status", 10).status(), Code::out_of_range, "more than 10 bytes");
}

// Feeds `bytes` to standard input through a pipe while `read` runs.
Result<std::string> with_stdin(const std::string& bytes, size_t max_bytes) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const int saved = ::dup(STDIN_FILENO);
  ::dup2(ends[0], STDIN_FILENO);
  ::close(ends[0]);
  std::thread writer([&] {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::write(ends[1], bytes.data() + at, bytes.size() - at);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    ::close(ends[1]);
  });
  auto result = read_whole("-", max_bytes);
  saved >= 0 ? ::dup2(saved, STDIN_FILENO) : ::close(STDIN_FILENO);
  if (saved >= 0) ::close(saved);
  writer.join();
  return result;
}

TEST(ReadWhole, ReadsStandardInputForADash) {
  const auto old = std::signal(SIGPIPE, SIG_IGN);
  const std::string text(200000, 't');
  EXPECT_EQ(with_stdin(text, 200000).value(), text);
  EXPECT_EQ(with_stdin("", 0).value(), "");
  expect_failure(with_stdin(text, 199999).status(), Code::out_of_range, "standard input: more than 199999 bytes");
  std::signal(SIGPIPE, old);
}

TEST(WriteWhole, CreatesAndReplacesAndLeavesNothingElse) {
  const TempDir dir;
  const std::string path = dir.path("out.txt");
  ASSERT_TRUE(write_whole(path, "first").ok());
  EXPECT_EQ(dir.get("out.txt"), "first");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  ASSERT_TRUE(write_whole(path, std::string_view("se\0cond", 7)).ok());
  EXPECT_EQ(dir.get("out.txt"), std::string("se\0cond", 7));
  struct stat st {};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0640U) << "a replaced file keeps its mode";
  EXPECT_EQ(dir.entries(), 1U);
}

TEST(WriteWhole, ReplacesTheFileBehindALinkNotTheLink) {
  const TempDir dir;
  dir.put("real", "old");
  ASSERT_EQ(::symlink("real", dir.path("link").c_str()), 0);
  ASSERT_TRUE(write_whole(dir.path("link"), "new").ok());
  EXPECT_EQ(dir.get("real"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(dir.path("link")));
}

TEST(WriteWhole, LeavesTheOldFileWhenTheDiskIsFull) {
  const TempDir dir;
  const std::string path = dir.put("state", "old content");
  Status status;
  {
    const FileSizeLimit limit(1000);
    status = write_whole(path, std::string(5000, 'n'));
  }
  expect_failure(status, Code::io, path + ": larger than the system allows");
  EXPECT_EQ(dir.get("state"), "old content");
  EXPECT_EQ(dir.entries(), 1U) << "the temporary file is gone";
}

TEST(WriteWhole, NamesWhatStandsInTheWay) {
  const TempDir dir;
  expect_failure(write_whole("", "x"), Code::invalid_argument, "file name is empty");
  expect_failure(write_whole(dir.path("no/such/file"), "x"), Code::not_found, "no/such is not a directory");
  create_directory(dir.path("d"));
  expect_failure(write_whole(dir.path("d"), "x"), Code::invalid_argument, "is a directory");
  expect_failure(write_whole("/dev/full", "x"), Code::invalid_argument, "is a device");
}

TEST(FileWriter, IsInvisibleUntilCommitted) {
  const TempDir dir;
  dir.put("f", "old");
  {
    const auto writer = FileWriter::create(dir.path("f")).value();
    ASSERT_TRUE(writer->append("new ").ok());
    EXPECT_EQ(dir.get("f"), "old");
  }
  EXPECT_EQ(dir.get("f"), "old");
  EXPECT_EQ(dir.entries(), 1U);
  const auto writer = FileWriter::create(dir.path("f")).value();
  ASSERT_TRUE(writer->append("new ").ok());
  ASSERT_TRUE(writer->append("text").ok());
  ASSERT_TRUE(writer->commit().ok());
  EXPECT_EQ(dir.get("f"), "new text");
}

TEST(FileWriter, WritesALargeFileWhole) {
  const TempDir dir;
  const auto writer = FileWriter::create(dir.path("large")).value();
  std::string piece(size_t{7} << 20, 'a');
  for (int i = 0; i < 10; ++i) {
    piece.back() = static_cast<char>('0' + i);
    ASSERT_TRUE(writer->append(piece).ok());
  }
  ASSERT_TRUE(writer->commit().ok());
  const std::string found = dir.get("large");
  ASSERT_EQ(found.size(), 10 * piece.size());
  for (size_t i = 1; i <= 10; ++i) EXPECT_EQ(found[i * piece.size() - 1], static_cast<char>('0' + i - 1));
}

TEST(FreeDiskBytes, AreThoseOfTheFileSystemWhereAFileWouldLie) {
  const TempDir dir;
  const auto inside = free_disk_bytes(dir.path("new"));
  ASSERT_TRUE(inside.ok()) << inside.status().text();
  EXPECT_GT(*inside, 0U);
  EXPECT_TRUE(free_disk_bytes("a name without a directory").ok());
  EXPECT_TRUE(free_disk_bytes(dir.path("")).ok());
  expect_failure(free_disk_bytes(dir.path("missing/new")).status(), Code::not_found, "is not a directory");
  expect_failure(free_disk_bytes("").status(), Code::invalid_argument, "the file name is empty");
}

TEST(Names, FileNameHasNoDirectories) {
  EXPECT_EQ(file_name_of("a/b/c.gguf"), "c.gguf");
  EXPECT_EQ(file_name_of("c.gguf"), "c.gguf");
  EXPECT_EQ(file_name_of("/c"), "c");
  EXPECT_EQ(file_name_of("a/"), "");
}

TEST(Names, TheExecutableLiesInADirectoryThatHoldsIt) {
  const std::string directory = directory_of_executable();
  ASSERT_FALSE(directory.empty());
  EXPECT_TRUE(std::filesystem::exists(directory + "/os_unit_test")) << directory;
}

}  // namespace
}  // namespace strata
