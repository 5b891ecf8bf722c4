// Any bytes encode, never to a control token when they are plain, and decode to their form C; a stream of the tokens
// gives whole characters that join to the decoded text; pieces give what the whole gives. The vocabulary has merges
// that compete.
#include <string>
#include <vector>

#include "../../tests/text/toy_vocabulary.h"
#include "base/check.h"
#include "text/tokenizer.h"

namespace {

using namespace strata;

Tokenizer make_tokenizer() {
  ToyVocabulary toy;
  for (const char* marker : {"<|im_start|>", "<|im_end|>", "<", "<<a"}) toy.add(marker, TokenKind::control);
  toy.add("<think>", TokenKind::user_defined);
  toy.merge("a", "a");
  toy.merge("\xCC", "\x81");
  toy.merge("aa", "aa");
  toy.merge("a", "b");
  toy.merge(" ", "a");
  toy.merge(" ", " ");
  toy.merge("  ", "  ");
  toy.merge("b", "aa");
  toy.merge("\n", "\n");
  toy.merge(" a", "b");
  toy.merge("i", "m");
  auto tokenizer = Tokenizer::build(toy.get());
  CHECK(tokenizer.ok(), "{}", tokenizer.status().text());
  return std::move(tokenizer).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Tokenizer tokenizer = make_tokenizer();
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string composed;
  append_nfc(composed, text);

  const std::vector<TokenId> plain = tokenizer.encode(text, Special::plain);
  CHECK(tokenizer.decode_bytes(plain, Control::hide) == composed, "{} bytes changed", size);
  const std::vector<TokenId> parsed = tokenizer.encode(text, Special::parse);

  for (const std::vector<TokenId>* ids : {&plain, &parsed}) {
    StreamDecoder decoder(tokenizer, Control::show);
    std::string joined;
    for (const TokenId id : *ids) {
      const std::string piece = decoder.push(id);
      CHECK(is_valid_utf8(piece), "a piece is not UTF-8");
      joined += piece;
    }
    joined += decoder.finish();
    CHECK(joined == tokenizer.decode(*ids, Control::show), "pieces differ from the whole");
  }

  for (const bool trusted : {false, true}) {
    const size_t cut = size == 0 ? 0 : data[0] % size;
    const std::vector<TextPiece> pieces = {{text.substr(0, cut), trusted}, {text.substr(cut), trusted}};
    CHECK(tokenizer.encode(pieces) == (trusted ? parsed : plain), "pieces encode to something else");
  }
  return 0;
}
