// Runs a fuzz target over the files of its corpus, for builds without libFuzzer: replay DIRECTORY.
// Files are read in name order and copied to exact size, so a sanitizer sees every step beyond the end.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1], error)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  if (files.empty()) {
    fmt::print(stderr, "{}: no corpus files {}\n", argv[1], error.message());
    return 1;
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    fmt::print("{}\n", file.filename().string());
    std::fflush(stdout);
    std::ifstream in(file, std::ios::binary);
    if (!in) {
      fmt::print(stderr, "{}: cannot be read\n", file.string());
      return 1;
    }
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
  }
  LLVMFuzzerTestOneInput(nullptr, 0);
  fmt::print("{} inputs\n", files.size());
  return 0;
}
