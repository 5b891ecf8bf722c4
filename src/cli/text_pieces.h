// Where a long text may be cut so that its pieces, tokenized one by one, give the tokens of the whole.
#pragma once

#include <cstddef>
#include <string_view>

namespace strata {

// Bytes of the first piece of `text`, at most `most` (4 or more): up to a line end that an ASCII character other than a
// blank follows. Where there is none, up to any line end, and failing that between two characters: such a cut may split
// what would be one token.
size_t first_piece(std::string_view text, size_t most);

}  // namespace strata
