#include "base/hash.h"

#include <set>
#include <string>

namespace strata {
namespace {

uint64_t hash_of(const std::string& bytes) {
  Hash64 h;
  h.add(bytes.data(), bytes.size());
  return h.value();
}

TEST(Hash64, DoesNotDependOnThePieces) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i * 37);
  for (size_t a = 0; a <= text.size(); ++a) {
    for (const size_t b : {a, std::min(a + 3, text.size()), text.size()}) {
      Hash64 h;
      h.add(text.data(), a);
      h.add(text.data() + a, b - a);
      h.add(text.data() + b, text.size() - b);
      EXPECT_EQ(h.value(), hash_of(text)) << a << " " << b;
    }
  }
}

TEST(Hash64, NoticesEveryBitTheOrderAndTheLength) {
  const std::string text(41, 'x');
  std::set<uint64_t> seen{hash_of(text)};
  for (size_t i = 0; i < text.size() * 8; ++i) {
    std::string other = text;
    other[i / 8] = static_cast<char>(other[i / 8] ^ (1 << (i % 8)));
    EXPECT_TRUE(seen.insert(hash_of(other)).second) << "bit " << i;
  }
  for (size_t n = 0; n < 40; ++n) EXPECT_TRUE(seen.insert(hash_of(std::string(n, '\0'))).second) << n << " zeros";
  EXPECT_NE(hash_of("abcdefgh12345678"), hash_of("12345678abcdefgh"));
}

}  // namespace
}  // namespace strata
