#include "text/jinja_text.h"

#include <algorithm>

namespace strata::jinja {

void MarkedText::mark(bool trusted) {
  const bool last = first_trusted_ != (flips_.size() % 2 == 1);
  if (bytes_.empty())
    first_trusted_ = trusted;
  else if (last != trusted)
    flips_.push_back(static_cast<uint32_t>(bytes_.size()));
}

void MarkedText::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  mark(trusted);
  bytes_.append(bytes);
}

void MarkedText::append(const MarkedText& from, size_t begin, size_t end) {
  // The number of flips is read first: `from` may be this text and grow meanwhile.
  const size_t n_flips = from.flips_.size();
  size_t flip =
      static_cast<size_t>(std::upper_bound(from.flips_.begin(), from.flips_.end(), begin) - from.flips_.begin());
  bool trusted = from.first_trusted_ != (flip % 2 == 1);
  while (begin < end) {
    const size_t stop = flip < n_flips ? std::min<size_t>(from.flips_[flip], end) : end;
    mark(trusted);
    bytes_.append(from.bytes_, begin, stop - begin);
    begin = stop;
    trusted = !trusted;
    ++flip;
  }
}

bool MarkedText::trusted_at(size_t offset) const {
  const auto flip = std::upper_bound(flips_.begin(), flips_.end(), offset) - flips_.begin();
  return first_trusted_ != (flip % 2 == 1);
}

bool MarkedText::all_trusted(size_t begin, size_t end) const {
  if (begin >= end) return true;
  const auto flip = std::upper_bound(flips_.begin(), flips_.end(), begin);
  return trusted_at(begin) && (flip == flips_.end() || *flip >= end);
}

std::vector<TextPiece> MarkedText::pieces() const {
  std::vector<TextPiece> out;
  size_t begin = 0;
  bool trusted = first_trusted_;
  for (size_t i = 0; i <= flips_.size() && begin < bytes_.size(); ++i) {
    const size_t end = i < flips_.size() ? flips_[i] : bytes_.size();
    out.push_back({bytes_.substr(begin, end - begin), trusted});
    begin = end;
    trusted = !trusted;
  }
  return out;
}

}  // namespace strata::jinja
