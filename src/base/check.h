// CHECK(condition, "format {}", values): a bug in this program; prints where and what, then aborts.
// Never for input of any kind: input that is wrong gives a Status.
#pragma once

#include <fmt/format.h>

#include <string>

namespace strata {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace strata

#define CHECK(condition, ...)                                                           \
  do {                                                                                  \
    if (!(condition)) [[unlikely]]                                                      \
      ::strata::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (0)
