// Cuts template source into tokens the way jinja2 does with trim_blocks and lstrip_blocks: text between tags, and the
// words inside tags. White space control (-, +), comments and raw blocks are dealt with here; the parser never sees
// them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace strata::jinja {

enum class TokenKind : uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  sign,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 1;
  std::string text;  // data: the text; string: its value; sign: the sign; others: as written
};

// Source must be UTF-8. Fails with "line N: cause". The last token has kind `end`.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace strata::jinja
