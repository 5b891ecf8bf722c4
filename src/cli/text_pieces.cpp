#include "cli/text_pieces.h"

#include "base/check.h"

namespace strata {

size_t first_piece(std::string_view text, size_t most) {
  CHECK(most >= 4, "a piece of {} bytes may not hold one character", most);
  if (text.size() <= most) return text.size();
  size_t line_end = 0;
  for (size_t cut = most; cut > 0; --cut) {
    if (text[cut - 1] != '\n') continue;
    const char next = text[cut];
    if (next > ' ' && next < 0x7F) return cut;
    if (line_end == 0) line_end = cut;
  }
  if (line_end > 0) return line_end;
  size_t cut = most;
  while (cut > most - 3 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return cut;
}

}  // namespace strata
