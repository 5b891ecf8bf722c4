// Cuts text into pre-tokens, the pieces inside which byte pairs are merged. A hand-written matcher of the expression
//   (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+ | \p{N} | [ ]?[^\s\p{L}\p{M}\p{N}]+[\r\n]* |
//   \s*[\r\n]+ | \s+(?!\S) | \s+
// where the first alternative that matches wins and case is folded as Unicode does. Every character belongs to one
// pre-token. Bytes that are not UTF-8 cut as U+FFFD would. Promises linear time over a whole text.
#pragma once

#include <cstddef>
#include <string_view>

namespace strata {

// Where the pre-token ends that begins at `pos`, a byte inside the text.
size_t pretoken_end(std::string_view text, size_t pos);

}  // namespace strata
