#include "base/result.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace strata {

const char* code_name(Code code) {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid argument";
    case Code::not_found:
      return "not found";
    case Code::io:
      return "io";
    case Code::corrupt:
      return "corrupt";
    case Code::unsupported:
      return "unsupported";
    case Code::out_of_memory:
      return "out of memory";
    case Code::out_of_range:
      return "out of range";
    case Code::cancelled:
      return "cancelled";
    case Code::failed:
      return "failed";
  }
  return "unknown";
}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  const char* name = std::strrchr(file, '/');
  std::fprintf(stderr, "strata: bug at %s:%d: %s: %s\n", name ? name + 1 : file, line, condition, message.c_str());
  std::abort();
}

}  // namespace strata
