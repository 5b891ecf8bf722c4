#include "os/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace strata {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string parent_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_directory(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

// `path` reaches the system as a C string: a zero byte inside would name another file than the one meant.
Status check_path(const std::string& path) {
  if (path.empty()) return {Code::invalid_argument, "the file name is empty", "name a file"};
  if (path.find('\0') != std::string::npos) {
    return {Code::invalid_argument, fmt::format("{}: the file name contains a zero byte", path.c_str())};
  }
  return {};
}

Status read_error(const std::string& path, int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      if (!is_directory(parent_of(path))) {
        return {Code::not_found, fmt::format("{}: no such file, {} is not a directory", path, parent_of(path)),
                "check the path"};
      }
      return {Code::not_found, fmt::format("{}: no such file", path), "check the path"};
    case EACCES:
    case EPERM:
      return {Code::io, fmt::format("{}: no permission to read it", path),
              "change its mode or owner, or run as a user who may"};
    case EMFILE:
    case ENFILE:
      return {Code::io, fmt::format("{}: too many files are open", path), "raise the limit of open files (ulimit -n)"};
    case ENOMEM:
      return {Code::out_of_memory, fmt::format("{}: not enough memory or address space to read it", path),
              "free memory or raise ulimit -v"};
    default:
      return {Code::io, fmt::format("{}: cannot be read: {}", path, std::strerror(error)), "check the disk"};
  }
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

Status not_regular(const std::string& path, mode_t mode) {
  const char* hint = S_ISDIR(mode) ? "name a file inside it" : "copy it to a regular file first";
  return {Code::invalid_argument, fmt::format("{}: is {}, expected a regular file", path, kind_of(mode)), hint};
}

int64_t mtime_ns(const struct stat& st) {
  return int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
}

// Asked before opening, because opening a pipe waits for a writer and opening a device may do something.
Status stat_path(const std::string& path, struct stat* st) {
  RETURN_IF_ERROR(check_path(path));
  if (::stat(path.c_str(), st) != 0) return read_error(path, errno);
  return {};
}

// Reads to the end, at most one byte more than max_bytes so that "too much" is noticed without holding it all.
Result<std::string> read_descriptor(const std::string& name, int fd, size_t expected, size_t max_bytes) {
  std::string out;
  const size_t limit = max_bytes == SIZE_MAX ? max_bytes : max_bytes + 1;
  constexpr size_t kStep = size_t{64} << 10;
  while (out.size() < limit) {
    const size_t at = out.size();
    const size_t step = at <= expected ? expected - at + 1 : kStep;
    out.resize(at + std::min(step, limit - at));
    ssize_t n = 0;
    do {
      n = ::read(fd, out.data() + at, out.size() - at);
    } while (n < 0 && errno == EINTR);
    if (n < 0) return read_error(name, errno);
    out.resize(at + static_cast<size_t>(n));
    if (n == 0) break;
  }
  if (out.size() > max_bytes) {
    return Status{Code::out_of_range, fmt::format("{}: more than {} bytes", name, max_bytes), "give a smaller file"};
  }
  return out;
}

Status write_error(const std::string& path, int error) {
  const std::string as_before = "; nothing was changed";
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return {Code::io, fmt::format("{}: the disk is full", path), "free space or write elsewhere" + as_before};
    case EFBIG:
      return {Code::io, fmt::format("{}: larger than the system allows a file to be", path),
              "check ulimit -f and the file system" + as_before};
    case ENOENT:
    case ENOTDIR:
      return {Code::not_found, fmt::format("{}: cannot be written, {} is not a directory", path, parent_of(path)),
              "create the directory first"};
    case EACCES:
    case EPERM:
      return {Code::io, fmt::format("{}: no permission to write in {}", path, parent_of(path)),
              "write elsewhere, or change the directory's mode"};
    case EROFS:
      return {Code::io, fmt::format("{}: the file system is read-only", path), "write elsewhere"};
    default:
      return {Code::io, fmt::format("{}: cannot be written: {}", path, std::strerror(error)),
              "check the disk" + as_before};
  }
}

// The directory entry itself must reach the disk; some file systems cannot flush a directory and say EINVAL.
Status flush_directory(const std::string& path, const std::string& directory) {
  const Descriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return {};  // written to, but not readable: nothing more can be done
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return write_error(path, errno);
  return {};
}

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  struct stat st {};
  RETURN_IF_ERROR(stat_path(path, &st));
  if (!S_ISREG(st.st_mode)) return not_regular(path, st.st_mode);
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0 || ::fstat(fd.get(), &st) != 0) return read_error(path, errno);
  if (!S_ISREG(st.st_mode)) return not_regular(path, st.st_mode);
  if (st.st_size == 0)
    return Status{Code::corrupt, fmt::format("{}: the file is empty (0 bytes)", path), "download or copy it again"};
  std::unique_ptr<MappedFile> file(new MappedFile);
  const auto size = static_cast<size_t>(st.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return read_error(path, errno);
  file->path_ = path;
  file->data_ = static_cast<const std::byte*>(data);
  file->size_ = size;
  file->device_ = st.st_dev;
  file->inode_ = st.st_ino;
  file->mtime_ns_ = mtime_ns(st);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::advise(size_t offset, size_t length, Access access) const {
  if (offset >= size_) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t last = offset + std::min(length, size_ - offset);
  size_t begin = offset / page * page;
  size_t end = last;
  int advice = MADV_NORMAL;
  switch (access) {
    case Access::normal:
      break;
    case Access::random:
      advice = MADV_RANDOM;
      break;
    case Access::sequential:
      advice = MADV_SEQUENTIAL;
      break;
    case Access::will_need:
      advice = MADV_WILLNEED;
      break;
    case Access::not_needed:
      advice = MADV_DONTNEED;
      begin = (offset + page - 1) / page * page;
      if (last != size_) end = last / page * page;
      break;
  }
  // A hint: what the system answers changes nothing for the reader.
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, advice);
}

Status MappedFile::unchanged() const {
  const char* hint = "put the file back and start again";
  struct stat st {};
  if (::stat(path_.c_str(), &st) != 0) {
    return {Code::io, fmt::format("{}: the file was removed while it was in use", path_), hint};
  }
  if (st.st_dev != device_ || st.st_ino != inode_) {
    return {Code::io, fmt::format("{}: the file was replaced by another one while it was in use", path_), hint};
  }
  if (static_cast<size_t>(st.st_size) != size_) {
    return {
        Code::io,
        fmt::format("{}: the file was {} bytes and is now {}, changed while it was in use", path_, size_, st.st_size),
        hint};
  }
  if (mtime_ns(st) != mtime_ns_) {
    return {Code::io, fmt::format("{}: the file was written to while it was in use", path_), hint};
  }
  return {};
}

Result<std::string> read_whole(const std::string& path, size_t max_bytes) {
  if (path == "-") return read_descriptor("standard input", STDIN_FILENO, 0, max_bytes);
  struct stat st {};
  RETURN_IF_ERROR(stat_path(path, &st));
  if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode)) return not_regular(path, st.st_mode);
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return read_error(path, errno);
  const size_t expected = S_ISREG(st.st_mode) ? static_cast<size_t>(st.st_size) : 0;
  if (expected > max_bytes) {
    return Status{Code::out_of_range, fmt::format("{}: {} bytes, at most {} are accepted", path, expected, max_bytes),
                  "give a smaller file"};
  }
  return read_descriptor(path, fd.get(), expected, max_bytes);
}

Result<std::unique_ptr<FileWriter>> FileWriter::create(const std::string& path) {
  RETURN_IF_ERROR(check_path(path));
  std::unique_ptr<FileWriter> file(new FileWriter);
  file->path_ = path;
  file->target_ = path;
  struct stat st {};
  const bool exists = ::stat(path.c_str(), &st) == 0;
  if (exists && !S_ISREG(st.st_mode)) return not_regular(path, st.st_mode);
  if (exists) {  // a link stays a link: the file it points to is the one replaced
    char resolved[PATH_MAX];
    if (::realpath(path.c_str(), resolved) == nullptr) return write_error(path, errno);
    file->target_ = resolved;
  }
  static std::atomic<unsigned> serial{0};
  for (int attempt = 0; attempt < 100 && file->fd_ < 0; ++attempt) {
    std::string name = fmt::format("{}.{}-{}.tmp", file->target_, ::getpid(), serial++);
    file->fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, exists ? st.st_mode & 0777 : 0666);
    if (file->fd_ >= 0) {
      file->temporary_ = std::move(name);
    } else if (errno != EEXIST) {
      return write_error(path, errno);
    }
  }
  if (file->fd_ < 0) return write_error(path, EEXIST);
  if (exists && ::fchmod(file->fd_, st.st_mode & 07777) != 0) return write_error(path, errno);
  return file;
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status FileWriter::append(std::span<const std::byte> bytes) {
  CHECK(fd_ >= 0, "{} is already complete", path_);
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return write_error(path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    written_ += static_cast<uint64_t>(n);
  }
#ifdef __linux__
  // The disk works on one stretch while the next one comes; hints, commit() flushes whatever came of them.
  constexpr uint64_t kStretch = uint64_t{32} << 20;
  if (written_ - handed_on_ >= kStretch) {
    const auto at = [](uint64_t offset) { return static_cast<off_t>(offset); };
    ::sync_file_range(fd_, at(handed_on_), at(written_ - handed_on_), SYNC_FILE_RANGE_WRITE);
    if (handed_on_ > settled_)
      ::sync_file_range(fd_, at(settled_), at(handed_on_ - settled_),
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    settled_ = handed_on_;
    handed_on_ = written_;
  }
#endif
  return {};
}

Status FileWriter::commit() {
  CHECK(fd_ >= 0, "{} is already complete", path_);
  if (::fsync(fd_) != 0) return write_error(path_, errno);
  if (::close(std::exchange(fd_, -1)) != 0) return write_error(path_, errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return write_error(path_, errno);
  temporary_.clear();
  return flush_directory(path_, parent_of(target_));
}

Result<uint64_t> free_disk_bytes(const std::string& path) {
  RETURN_IF_ERROR(check_path(path));
  struct statvfs fs {};
  if (::statvfs(is_directory(path) ? path.c_str() : parent_of(path).c_str(), &fs) != 0) return write_error(path, errno);
  return uint64_t{fs.f_bavail} * fs.f_frsize;
}

Status write_whole(const std::string& path, std::string_view bytes) {
  ASSIGN_OR_RETURN(const auto file, FileWriter::create(path));
  RETURN_IF_ERROR(file->append(bytes));
  return file->commit();
}

std::string file_name_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string directory_of_executable() {
  char buffer[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", buffer, sizeof buffer);
  if (n <= 0 || n == static_cast<ssize_t>(sizeof buffer)) return "";
  return parent_of(std::string(buffer, static_cast<size_t>(n)));
}

}  // namespace strata
