// Files as the rest of the house sees them: a read-only map, whole reads with a size limit, durable writes.
// Errors name the file as the user typed it and say what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace strata {

enum class Access { normal, random, sequential, will_need, not_needed };

class MappedFile {
 public:
  // Fails on a missing file, a directory, a pipe or device, an empty file, or no permission, each with its own message.
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // A hint for the pages that hold any of these bytes; a range beyond the end is cut. not_needed gives back only whole
  // pages inside the range.
  void advise(size_t offset, size_t length, Access access) const;
  // Same size, inode and modification time as when it was opened.
  Status unchanged() const;

 private:
  MappedFile() = default;
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  uint64_t device_ = 0, inode_ = 0;
  int64_t mtime_ns_ = 0;
};

// Whole file (or pipe) or, for "-", standard input; more than max_bytes is an error.
Result<std::string> read_whole(const std::string& path, size_t max_bytes);

// A file that appears under its name only when it is complete: bytes go to a temporary file beside it, commit() flushes
// them to the disk and renames. Destroyed without commit, it leaves nothing behind and the old file as it was. A large
// file is written at the speed of its disk: little of it waits in memory for commit().
class FileWriter {
 public:
  static Result<std::unique_ptr<FileWriter>> create(const std::string& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text) { return append(std::as_bytes(std::span(text))); }
  Status commit();

 private:
  FileWriter() = default;
  std::string path_;       // as the user typed it
  std::string target_;     // with links resolved
  std::string temporary_;  // empty once renamed
  int fd_ = -1;
  uint64_t written_ = 0, handed_on_ = 0, settled_ = 0;  // bytes: appended, told to the disk, on the disk
};

// Bytes that this user may still write to the file system where `path` lies or would be created.
Result<uint64_t> free_disk_bytes(const std::string& path);

// Written to a temporary file beside `path`, flushed, then renamed: a full disk leaves the old file as it was.
Status write_whole(const std::string& path, std::string_view bytes);

std::string file_name_of(const std::string& path);
std::string directory_of_executable();  // "" when the system does not say

}  // namespace strata
