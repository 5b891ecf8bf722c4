#include "cli/text_pieces.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tensor/gguf.h"
#include "text/tokenizer.h"

namespace strata {
namespace {

std::vector<std::string> pieces(std::string_view text, size_t most) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t n = first_piece(text, most);
    EXPECT_GT(n, 0u);
    EXPECT_LE(n, most);
    out.emplace_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return out;
}

TEST(TextPieces, AShortTextIsOnePiece) {
  EXPECT_EQ(first_piece("", 4), 0u);
  EXPECT_EQ(first_piece("abc\n", 4), 4u);
}

TEST(TextPieces, TheCutIsTheLastLineEndBeforeAWord) {
  EXPECT_EQ(pieces("one\ntwo\nthree\n", 9), (std::vector<std::string>{"one\ntwo\n", "three\n"}));
  // Neither inside a run of line ends nor before an indented line, where blanks and line end may share a token.
  EXPECT_EQ(pieces("one\ntwo\n\n\nxxx", 9), (std::vector<std::string>{"one\n", "two\n\n\nxxx"}));
  EXPECT_EQ(pieces("one\ntwo\n  x\ny", 9), (std::vector<std::string>{"one\n", "two\n  x\ny"}));
}

TEST(TextPieces, WithoutALineEndNoCharacterIsBroken) {
  const std::string fox = "\xF0\x9F\xA6\x8A";
  EXPECT_EQ(pieces(fox + fox + fox, 6), (std::vector<std::string>{fox, fox, fox}));
  EXPECT_EQ(pieces("aaaaaaaa", 5), (std::vector<std::string>{"aaaaa", "aaa"}));
  EXPECT_EQ(pieces(std::string(9, '\x80'), 4).size(), 6u) << "bytes that are no text come to an end as well";
}

TEST(TextPieces, PiecesTokenizeAsTheWholeDoes) {
  const Result<Gguf> file = Gguf::open(STRATA_SOURCE_DIR "/models/flash-next-nano-IQ3_XXS.gguf");
  ASSERT_TRUE(file.ok()) << file.status().text();
  const Result<Tokenizer> tokenizer = Tokenizer::open(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().text();
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "Line " + std::to_string(i) + " has words, caf\xC3\xA9 and  blanks.\n";
    if (i % 3 == 0) text += "\n";
    if (i % 5 == 0) text += "    indented\n\t\ttwice\r\n";
    if (i % 7 == 0) text += " \n\xE4\xBD\xA0\xE5\xA5\xBD\n\n\n'd like\n12 + 34\n";
  }
  const std::vector<TokenId> whole = tokenizer->encode(text, Special::plain);
  for (const size_t most : {80u, 100u, 150u, 333u, 1000u}) {
    std::vector<TokenId> joined;
    for (const std::string& piece : pieces(text, most)) {
      const std::vector<TokenId> tokens = tokenizer->encode(piece, Special::plain);
      joined.insert(joined.end(), tokens.begin(), tokens.end());
    }
    EXPECT_EQ(joined, whole) << most;
  }
}

}  // namespace
}  // namespace strata
