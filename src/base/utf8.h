// Where UTF-8 characters begin and end; for cutting text without breaking one.
#pragma once

#include <cstddef>
#include <string_view>

namespace strata {

// Bytes of the well-formed character at text[i]; 0 when there is none (ill-formed, or cut off by the end).
size_t utf8_length(std::string_view text, size_t i);

// Bytes at the end of text that begin a character whose rest is missing; 0 when the text ends whole or is beyond
// repair.
size_t utf8_incomplete_tail(std::string_view text);

}  // namespace strata
