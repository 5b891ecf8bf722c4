#include "text/tokenizer.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/check.h"
#include "text/pretokenizer.h"

namespace strata {

namespace {

constexpr size_t kMarkerBytesMax = 1024;  // bounds the work of looking for a marker at one byte
constexpr std::string_view kTurnEnd = "<|im_end|>", kTextEnd = "<|endoftext|>";

// Ordinary tokens are spelled in an alphabet of one printable character a byte: itself where it is printable Latin-1,
// else the next character from U+0100 on. The table gives the byte of a character, or -1.
constexpr size_t kAlphabetEnd = 324;
constexpr std::array<int16_t, kAlphabetEnd> kAlphabet = [] {
  std::array<int16_t, kAlphabetEnd> bytes{};
  bytes.fill(-1);
  size_t next = 256;
  for (size_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
    bytes[printable ? b : next++] = static_cast<int16_t>(b);
  }
  return bytes;
}();

// Appends the bytes that `spelled` stands for; false when a character is not of the alphabet.
bool append_alphabet_bytes(std::string_view spelled, std::vector<char>& out) {
  for (size_t pos = 0; pos < spelled.size();) {
    const Utf8Char c = utf8_char(spelled, pos);
    const auto letter = static_cast<size_t>(c.code_point);
    if (c.kind != Utf8Kind::valid || letter >= kAlphabetEnd || kAlphabet[letter] < 0) return false;
    out.push_back(static_cast<char>(kAlphabet[letter]));
    pos += c.length;
  }
  return true;
}

bool is_added(TokenKind kind) {
  return kind == TokenKind::control || kind == TokenKind::user_defined;
}

std::string quoted(std::string_view text) {
  constexpr size_t kShown = 80;
  return '"' + escaped(text.substr(0, kShown)) + (text.size() > kShown ? "...\"" : "\"");
}

Status require_value(const Gguf& file, std::string_view key, std::string_view supported) {
  ASSIGN_OR_RETURN(const std::string_view found, file.get_string(key));
  if (found == supported) return {};
  return {Code::unsupported,
          fmt::format("{}: {} is {}, supported is \"{}\"", file.file_name(), key, quoted(found), supported)};
}

}  // namespace

Result<Vocabulary> read_vocabulary(const Gguf& file) {
  RETURN_IF_ERROR(require_value(file, "tokenizer.ggml.model", "gpt2"));
  RETURN_IF_ERROR(require_value(file, "tokenizer.ggml.pre", "qwen35"));
  Vocabulary vocabulary;
  ASSIGN_OR_RETURN(vocabulary.tokens, file.get_string_array("tokenizer.ggml.tokens"));
  const std::string types_key = "tokenizer.ggml.token_type";
  if (const GgufValue* types = file.find(types_key); types != nullptr) {
    if (!types->is_array || types->type != GgufType::i32)
      return Status(Code::corrupt,
                    fmt::format("{}: {} is {} of type {}, expected an array of type i32", file.file_name(), types_key,
                                types->is_array ? "an array" : "one value", gguf_type_name(types->type)));
  }
  ASSIGN_OR_RETURN(vocabulary.types, file.get_int_array(types_key));
  const std::string merges_key = "tokenizer.ggml.merges";
  if (file.find(merges_key) == nullptr)
    return Status(Code::unsupported,
                  fmt::format("{}: no {}, so its tokenizer is not complete", file.file_name(), merges_key),
                  "open the model's main file; a draft head's file has token names but no merges");
  ASSIGN_OR_RETURN(vocabulary.merges, file.get_string_array(merges_key));
  for (const char* name : {"eos", "bos", "padding"}) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    if (file.find(key) == nullptr) continue;
    const auto last = static_cast<int64_t>(vocabulary.tokens.size()) - 1;
    ASSIGN_OR_RETURN(const int64_t id, file.get_int(key, 0, last));
    if (std::string_view(name) == "eos") vocabulary.eos = TokenId(static_cast<int32_t>(id));
  }
  return vocabulary;
}

// Checks a vocabulary and fills a tokenizer from it, step by step.
struct Tokenizer::Builder {
  const Vocabulary& in;
  Tokenizer out;
  std::vector<bool> spelled;  // per token: its characters are all of the byte alphabet

  Status build() {
    RETURN_IF_ERROR(take_tokens());
    RETURN_IF_ERROR(index_tokens());
    RETURN_IF_ERROR(take_bytes());
    RETURN_IF_ERROR(take_merges());
    return take_stop_ids();
  }

  Status take_tokens() {
    const size_t n = in.tokens.size();
    if (n == 0 || n > static_cast<size_t>(INT32_MAX))
      return {Code::corrupt, fmt::format("tokenizer.ggml.tokens has {} tokens", n)};
    if (in.types.size() != n)
      return {Code::corrupt, fmt::format("tokenizer.ggml.token_type has {} values for {} tokens", in.types.size(), n)};
    out.offsets_.reserve(n + 1);
    out.offsets_.push_back(0);
    out.kinds_.reserve(n);
    spelled.resize(n);
    for (size_t i = 0; i < n; ++i) {
      if (in.types[i] < 1 || in.types[i] > 6)
        return {Code::corrupt, fmt::format("tokenizer.ggml.token_type[{}] is {}, expected 1 to 6", i, in.types[i])};
      out.kinds_.push_back(static_cast<TokenKind>(in.types[i]));
      take_token(i);
    }
    return {};
  }

  // Tokens outside of the alphabet stand for their own text.
  void take_token(size_t i) {
    const std::string_view text = in.tokens[i];
    const size_t begin = out.arena_.size();
    spelled[i] = out.kinds_[i] == TokenKind::normal && append_alphabet_bytes(text, out.arena_);
    if (!spelled[i]) {
      out.arena_.resize(begin);
      out.arena_.insert(out.arena_.end(), text.begin(), text.end());
    }
    out.offsets_.push_back(out.arena_.size());
  }

  Status index_tokens() {
    out.ordinary_.reserve(in.tokens.size());
    for (int32_t i = 0; i < out.vocab_size(); ++i) {
      const TokenId id(i);
      const std::string_view bytes = out.bytes(id);
      if (bytes.empty()) continue;
      if (spelled[static_cast<size_t>(i)]) out.ordinary_.try_emplace(bytes, id);
      if (!is_added(out.kind(id))) continue;
      if (bytes.size() > kMarkerBytesMax)
        return {Code::unsupported,
                fmt::format("token {} is a control or user-defined token of {} bytes; at most {} are supported", i,
                            bytes.size(), kMarkerBytesMax)};
      out.added_.push_back({bytes, id});
      out.starts_added_[static_cast<uint8_t>(bytes.front())] = true;
    }
    const auto same = [](const Added& a, const Added& b) { return a.bytes == b.bytes; };
    std::sort(out.added_.begin(), out.added_.end(),
              [](const Added& a, const Added& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id; });
    out.added_.erase(std::unique(out.added_.begin(), out.added_.end(), same), out.added_.end());
    return {};
  }

  Status take_bytes() {
    for (int b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      const auto at = out.ordinary_.find(std::string_view(&byte, 1));
      if (at == out.ordinary_.end())
        return {Code::corrupt, fmt::format("tokenizer.ggml.tokens has no token for the byte 0x{:02X}", b)};
      out.byte_ids_[static_cast<size_t>(b)] = at->second.v;
    }
    return {};
  }

  Status take_merges() {
    if (in.merges.empty()) return {Code::corrupt, "tokenizer.ggml.merges is empty"};
    if (in.merges.size() >= MergeTable::kNone)
      return {Code::corrupt, fmt::format("tokenizer.ggml.merges has {} merges", in.merges.size())};
    std::vector<Merge> merges;
    merges.reserve(in.merges.size());
    std::vector<char> bytes;
    for (const std::string_view text : in.merges) {
      const auto fail = [&](const std::string& why) {
        return Status(Code::corrupt, fmt::format("tokenizer.ggml.merges[{}] {}: {}", merges.size(), quoted(text), why));
      };
      const size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
        return fail("expected two tokens with one space between them");
      const std::string_view left = text.substr(0, space), right = text.substr(space + 1);
      bytes.clear();
      const bool left_spelled = append_alphabet_bytes(left, bytes);
      const size_t middle = bytes.size();
      const bool right_spelled = append_alphabet_bytes(right, bytes);
      const std::string_view all(bytes.data(), bytes.size());
      const int32_t left_id = left_spelled ? ordinary_id(all.substr(0, middle)) : -1;
      const int32_t right_id = right_spelled ? ordinary_id(all.substr(middle)) : -1;
      if (left_id < 0) return fail(quoted(left) + " is no ordinary token of the vocabulary");
      if (right_id < 0) return fail(quoted(right) + " is no ordinary token of the vocabulary");
      const int32_t result = ordinary_id(all);
      if (result < 0) return fail("its result is no ordinary token of the vocabulary");
      merges.push_back({left_id, right_id, result});
    }
    out.merges_ = MergeTable(std::move(merges), out.vocab_size());
    return {};
  }

  int32_t ordinary_id(std::string_view bytes) const {
    const auto at = out.ordinary_.find(bytes);
    return at == out.ordinary_.end() ? -1 : at->second.v;
  }

  Status take_stop_ids() {
    std::vector<TokenId>& ids = out.stop_ids_;
    if (in.eos) {
      if (!out.contains(*in.eos))
        return {Code::corrupt,
                fmt::format("tokenizer.ggml.eos_token_id is {}, beyond the {} tokens", in.eos->v, out.vocab_size())};
      ids.push_back(*in.eos);
    }
    for (const std::string_view name : {kTurnEnd, kTextEnd}) {
      if (const auto id = out.find(name)) ids.push_back(*id);
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return {};
  }
};

Result<Tokenizer> Tokenizer::build(const Vocabulary& vocabulary) {
  Builder builder{vocabulary, Tokenizer(), {}};
  RETURN_IF_ERROR(builder.build());
  return std::move(builder.out);
}

Result<Tokenizer> Tokenizer::open(const Gguf& file) {
  ASSIGN_OR_RETURN(const Vocabulary vocabulary, read_vocabulary(file));
  auto tokenizer = build(vocabulary);
  if (!tokenizer.ok()) return tokenizer.status().within(file.file_name());
  return tokenizer;
}

// Encodes stretches of ordinary text, one after another, into one list. A pre-token seen before is copied from where
// its ids were first written: the memory for that is bounded, and a newer pre-token takes an older one's place.
class Tokenizer::Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, size_t text_bytes)
      : tokenizer_(tokenizer),
        merger_(tokenizer.merges_),
        seen_(std::bit_ceil(std::clamp<size_t>(text_bytes / 8, 16, 16384))) {
    text_.reserve(text_bytes);
    ids_.reserve(text_bytes / 4 + 1);
  }

  void text(std::string_view part) {
    size_t pos = text_.size();
    append_nfc(text_, part);
    while (pos < text_.size()) {
      const size_t end = pretoken_end(text_, pos);
      pretoken(pos, end - pos);
      pos = end;
    }
  }
  void marker(TokenId id) { ids_.push_back(id); }
  std::vector<TokenId> take() { return std::move(ids_); }

 private:
  struct Seen {
    uint32_t begin = 0, bytes = 0;  // in text_
    uint32_t first = 0, n = 0;      // in ids_
  };

  void pretoken(size_t begin, size_t bytes) {
    constexpr size_t kSeenBytesMax = 48;
    const std::string_view text(text_.data() + begin, bytes);
    const size_t first = ids_.size();
    if (bytes == 1 || bytes > kSeenBytesMax) {
      merge(text);
      return;
    }
    Seen& seen = seen_[std::hash<std::string_view>{}(text) & (seen_.size() - 1)];
    if (text == std::string_view(text_).substr(seen.begin, seen.bytes)) {
      ids_.resize(first + seen.n);
      std::copy_n(ids_.begin() + seen.first, seen.n, ids_.begin() + static_cast<ptrdiff_t>(first));
      return;
    }
    merge(text);
    seen = {static_cast<uint32_t>(begin), static_cast<uint32_t>(bytes), static_cast<uint32_t>(first),
            static_cast<uint32_t>(ids_.size() - first)};
  }

  void merge(std::string_view text) {
    work_.clear();
    for (const char byte : text) work_.push_back(tokenizer_.byte_ids_[static_cast<uint8_t>(byte)]);
    merger_.merge(work_);
    for (const int32_t id : work_) ids_.push_back(TokenId(id));
  }

  const Tokenizer& tokenizer_;
  Merger merger_;
  std::vector<Seen> seen_;  // by hash
  std::string text_;        // all text so far, composed
  std::vector<TokenId> ids_;
  std::vector<int32_t> work_;
};

std::vector<TokenId> Tokenizer::encode(std::string_view text, Special special) const {
  const Run whole{0, text.size()};
  return encode_runs(text, special == Special::parse ? std::span(&whole, 1) : std::span<const Run>());
}

std::vector<TokenId> Tokenizer::encode(std::span<const TextPiece> pieces) const {
  std::string text;
  std::vector<Run> trusted;
  for (const TextPiece& piece : pieces) {
    const size_t begin = text.size();
    text += piece.text;
    if (!piece.trusted) continue;
    if (trusted.empty() || trusted.back().end != begin) trusted.push_back({begin, begin});
    trusted.back().end = text.size();
  }
  return encode_runs(text, trusted);
}

std::vector<TokenId> Tokenizer::encode_runs(std::string_view text, std::span<const Run> trusted) const {
  CHECK(text.size() <= kTextBytesMax, "{} bytes to encode", text.size());
  Encoder encoder(*this, text.size());
  size_t done = 0;
  for (const Run& run : trusted) {
    for (size_t pos = run.begin; pos < run.end;) {
      if (!starts_added_[static_cast<uint8_t>(text[pos])]) {
        ++pos;
        continue;
      }
      const Marker marker = longest_marker(text.substr(pos, run.end - pos));
      if (marker.length == 0) {
        ++pos;
        continue;
      }
      encoder.text(text.substr(done, pos - done));
      encoder.marker(marker.id);
      pos += marker.length;
      done = pos;
    }
  }
  encoder.text(text.substr(done));
  return encoder.take();
}

// Narrows the sorted tokens to those that agree with the text, byte by byte; of these the shortest is the first.
Tokenizer::Marker Tokenizer::longest_marker(std::string_view text) const {
  Marker best;
  auto begin = added_.begin(), end = added_.end();
  for (size_t depth = 0; depth < text.size(); ++depth) {
    const int wanted = static_cast<uint8_t>(text[depth]);
    const auto byte = [&](const Added& a) {
      return depth < a.bytes.size() ? static_cast<uint8_t>(a.bytes[depth]) : -1;
    };
    begin = std::partition_point(begin, end, [&](const Added& a) { return byte(a) < wanted; });
    end = std::partition_point(begin, end, [&](const Added& a) { return byte(a) == wanted; });
    if (begin == end) break;
    if (begin->bytes.size() == depth + 1) best = {depth + 1, begin->id};
  }
  return best;
}

std::string Tokenizer::decode_bytes(std::span<const TokenId> ids, Control control) const {
  std::string out;
  for (const TokenId id : ids) {
    if (control == Control::show || !is_hidden(id)) out += bytes(id);
  }
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, Control control) const {
  return to_valid_utf8(decode_bytes(ids, control));
}

std::string_view Tokenizer::bytes(TokenId id) const {
  CHECK(contains(id), "token {} of {}", id.v, vocab_size());
  const auto i = static_cast<size_t>(id.v);
  return {arena_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]};
}

TokenKind Tokenizer::kind(TokenId id) const {
  CHECK(contains(id), "token {} of {}", id.v, vocab_size());
  return kinds_[static_cast<size_t>(id.v)];
}

bool Tokenizer::is_hidden(TokenId id) const {
  const TokenKind k = kind(id);
  return k == TokenKind::control || k == TokenKind::unknown || k == TokenKind::unused;
}

std::string Tokenizer::piece_text(TokenId id) const {
  return escaped(bytes(id));
}

std::optional<TokenId> Tokenizer::find(std::string_view bytes) const {
  const auto added = std::lower_bound(added_.begin(), added_.end(), bytes,
                                      [](const Added& a, std::string_view wanted) { return a.bytes < wanted; });
  if (added != added_.end() && added->bytes == bytes) return added->id;
  const auto ordinary = ordinary_.find(bytes);
  if (ordinary != ordinary_.end()) return ordinary->second;
  return std::nullopt;
}

std::string StreamDecoder::push(TokenId id) {
  if (control_ == Control::hide && tokenizer_->is_hidden(id)) return {};
  return stream_.push(tokenizer_->bytes(id));
}

}  // namespace strata
