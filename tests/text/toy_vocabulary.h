// A vocabulary made in a test: some added tokens, the 256 bytes, then one token for each merge.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace strata {

class ToyVocabulary {
 public:
  ToyVocabulary() {
    for (int b = 0; b < 256; ++b)
      add(spelled(std::string_view(std::array{static_cast<char>(b)}.data(), 1)), TokenKind::normal);
  }

  // The id of the token at the end of the list after this.
  TokenId add(std::string text, TokenKind kind) {
    texts_.push_back(std::move(text));
    vocabulary_.tokens.push_back(texts_.back());
    vocabulary_.types.push_back(static_cast<int64_t>(kind));
    return TokenId(static_cast<int32_t>(vocabulary_.tokens.size()) - 1);
  }
  // Bytes, not spelled. The result becomes a token.
  TokenId merge(std::string_view left, std::string_view right) {
    merge_text(spelled(left) + " " + spelled(right));
    return add(spelled(left) + spelled(right), TokenKind::normal);
  }
  void merge_text(std::string text) {
    texts_.push_back(std::move(text));
    vocabulary_.merges.push_back(texts_.back());
  }
  Vocabulary& get() { return vocabulary_; }

  // In the alphabet of one printable character a byte.
  static std::string spelled(std::string_view bytes) {
    std::string out;
    for (const char c : bytes) {
      const int b = static_cast<uint8_t>(c);
      int letter = b;
      if (b <= 0x20) letter = 0x100 + b;
      if (b >= 0x7F && b <= 0xA0) letter = 0x121 + (b - 0x7F);
      if (b == 0xAD) letter = 0x143;
      append_utf8(out, letter);
    }
    return out;
  }

 private:
  std::deque<std::string> texts_;
  Vocabulary vocabulary_;
};

}  // namespace strata
