// Text to token ids and back: byte-level byte pair encoding with the vocabulary of a model file.
// Promises: control tokens come from trusted text alone; any bytes encode, and decode to their normal form C (bytes
// that are not UTF-8 unchanged); linear time but for the n log n of merging one pre-token. Never adds a begin or end
// token. Immutable after open(): any number of threads may use one tokenizer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tensor/gguf.h"
#include "text/bpe.h"
#include "text/text_piece.h"
#include "text/unicode.h"

namespace strata {

// The values are those of tokenizer.ggml.token_type.
enum class TokenKind : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

// A vocabulary as a file spells it; views into the file.
struct Vocabulary {
  std::vector<std::string_view> tokens;
  std::vector<int64_t> types;            // TokenKind of each token
  std::vector<std::string_view> merges;  // "left right", by rank
  std::optional<TokenId> eos;
};
Result<Vocabulary> read_vocabulary(const Gguf& file);

enum class Special {
  plain,  // every marker in the text is ordinary text
  parse,  // control and user-defined tokens are recognised, the longest first
};

enum class Control {
  hide,
  show
};  // control, unknown and unused tokens when decoding; user-defined ones are always text

class Tokenizer {
 public:
  // Needs the tokenizer keys alone, no tensors.
  static Result<Tokenizer> open(const Gguf& file);
  static Result<Tokenizer> build(const Vocabulary& vocabulary);
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The caller bounds what it takes from outside: at most kTextBytesMax.
  static constexpr size_t kTextBytesMax = size_t{1} << 30;
  std::vector<TokenId> encode(std::string_view text, Special special) const;
  // The pieces as one text, in which a marker is recognised only when all its bytes are trusted.
  std::vector<TokenId> encode(std::span<const TextPiece> pieces) const;

  // Valid UTF-8: to_valid_utf8(decode_bytes()).
  std::string decode(std::span<const TokenId> ids, Control control) const;
  std::string decode_bytes(std::span<const TokenId> ids, Control control) const;

  int32_t vocab_size() const { return static_cast<int32_t>(kinds_.size()); }
  bool contains(TokenId id) const { return id.v >= 0 && id.v < vocab_size(); }
  // These need an id that the vocabulary contains.
  std::string_view bytes(TokenId id) const;
  TokenKind kind(TokenId id) const;
  bool is_hidden(TokenId id) const;          // not shown by Control::hide
  std::string piece_text(TokenId id) const;  // for people: escaped() bytes

  // The token with these bytes (" the", "<|im_end|>"); the lowest id where several have them, added tokens first.
  std::optional<TokenId> find(std::string_view bytes) const;
  // Tokens that end an answer, rising: the file's end token, <|im_end|> and <|endoftext|>, as far as they exist.
  const std::vector<TokenId>& stop_ids() const { return stop_ids_; }

 private:
  struct Builder;
  class Encoder;
  struct Run {
    size_t begin = 0, end = 0;  // bytes of trusted text
  };
  struct Marker {
    size_t length = 0;  // 0: none
    TokenId id;
  };
  struct Added {
    std::string_view bytes;
    TokenId id;
  };

  Tokenizer() = default;
  std::vector<TokenId> encode_runs(std::string_view text, std::span<const Run> trusted) const;
  Marker longest_marker(std::string_view text) const;  // at the beginning of the text

  std::vector<char> arena_;                                 // the bytes of all tokens, one after another
  std::vector<size_t> offsets_;                             // [vocab_size + 1] into arena_
  std::vector<TokenKind> kinds_;                            // [vocab_size]
  std::unordered_map<std::string_view, TokenId> ordinary_;  // what merging can make
  std::vector<Added> added_;                                // control and user-defined tokens, sorted by bytes
  std::array<bool, 256> starts_added_{};                    // by first byte
  std::array<int32_t, 256> byte_ids_{};
  MergeTable merges_;
  std::vector<TokenId> stop_ids_;
};

// Text of tokens as they come, in whole characters: all pieces together are decode() of all tokens.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, Control control) : tokenizer_(&tokenizer), control_(control) {}
  std::string push(TokenId id);
  // What an unfinished character at the end becomes: one U+FFFD. The decoder is then as new.
  std::string finish() { return stream_.finish(); }

 private:
  const Tokenizer* tokenizer_;
  Control control_;
  Utf8Stream stream_;
};

}  // namespace strata
