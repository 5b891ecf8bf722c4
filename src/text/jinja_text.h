// Text that remembers who wrote each byte: the template (trusted) or the request (untrusted).
// Bytes are only ever added at the end, so a prefix stays what it was while the text grows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_piece.h"

namespace strata::jinja {

class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string_view bytes, bool trusted) { append(bytes, trusted); }

  std::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  void reserve(size_t bytes) { bytes_.reserve(bytes); }

  void append(std::string_view bytes, bool trusted);
  // Adds from[begin, end) with its marks; `from` may be this text.
  void append(const MarkedText& from, size_t begin, size_t end);

  bool trusted_at(size_t offset) const;
  bool all_trusted(size_t begin, size_t end) const;
  std::vector<TextPiece> pieces() const;  // neighbours differ in trust, none is empty

 private:
  void mark(bool trusted);

  std::string bytes_;
  bool first_trusted_ = true;
  std::vector<uint32_t> flips_;  // offsets where the mark changes, ascending
};

}  // namespace strata::jinja
