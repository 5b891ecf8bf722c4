// A stretch of prompt text and who wrote it: the template (trusted) or the request (untrusted).
// Control tokens may be made from trusted text alone.
#pragma once

#include <string>

namespace strata {

struct TextPiece {
  std::string text;
  bool trusted = false;
};

}  // namespace strata
