// Where UTF-8 characters begin and end; for cutting text without breaking one.
#pragma once

#include <cstddef>
#include <string_view>

namespace strata {

// Bytes of the well-formed character at text[i]; 0 when there is none (ill-formed, or cut off by the end).
size_t utf8_length(std::string_view text, size_t i);

}  // namespace strata
