// The hash with the constants of the published model: rows must agree with those its reference implementation reads.
#include "model/ngram_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

namespace strata {
namespace {

constexpr int32_t kEos = 248044;

NgramConfig real_config() {
  NgramConfig c;
  c.size = 3, c.heads_per_size = 8, c.eos = TokenId(kEos);
  c.multipliers = {23703573157769, 20109073645365, 8052911324071};
  c.head_rows = {20000003, 20000023, 20000033, 20000047, 20000059, 20000063, 20000069, 20000077,
                 20000081, 20000093, 20000107, 20000147, 20000153, 20000159, 20000161, 20000171};
  c.head_offsets.resize(c.head_rows.size());
  std::exclusive_scan(c.head_rows.begin(), c.head_rows.end(), c.head_offsets.begin(), uint64_t{0});
  c.table_rows = 320001536;
  return c;
}

std::vector<uint64_t> rows_of(const NgramConfig& c, int32_t token, const std::vector<int32_t>& previous) {
  std::vector<TokenId> ids;
  for (const int32_t id : previous) ids.emplace_back(id);
  std::vector<uint64_t> out(static_cast<size_t>(c.heads()));
  ngram_rows(c, TokenId(token), ids, out.data());
  return out;
}

TEST(NgramHash, TheConstantsFollowFromTheirDerivation) {
  const NgramConfig c = real_config();
  const uint64_t golden = 0x9E3779B97F4A7C15u;
  const uint64_t half = (uint64_t{0x7fffffffffffffff} / 248320) / 2;
  for (uint64_t k = 0; k < 3; ++k) {
    uint64_t z = 1234 + golden * (k + 1) + golden;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    EXPECT_EQ(c.multipliers[k], 2 * (z % half) + 1) << "multiplier " << k;
  }
  EXPECT_EQ(c.head_offsets.back() + c.head_rows.back(), 320001446u);
}

struct Vector {
  int32_t token;
  std::array<uint64_t, 16> rows;
};

// One text from the start of a sequence, with an end of text inside.
constexpr Vector kVectors[] = {
    {248045,
     {13981229, 30076798, 49239434, 61315716, 98540601, 111186732, 120378863, 146384625, 173637879, 184336749,
      217808755, 222173721, 249579227, 277180543, 299757935, 312970430}},
    {846,
     {4908448, 36872991, 46611251, 64451521, 83649409, 110850044, 122402102, 159207155, 170314019, 195445770, 214314282,
      239389039, 254862662, 271565595, 284073139, 308659387}},
    {198,
     {4582007, 37691206, 44255274, 65455601, 89351473, 103985474, 135938409, 145212418, 163775156, 199680439, 200044921,
      228961047, 240669798, 272736434, 296838250, 317942745}},
    {9419,
     {17028438, 28209680, 53967334, 66215064, 85458255, 111908343, 131616820, 144623762, 166642648, 189439214,
      209569116, 233987584, 245802513, 277657279, 294951074, 301485535}},
    {248044,
     {3091325, 31587036, 40332420, 73613226, 81102717, 104558745, 120642232, 150432651, 168696131, 183064417, 211952225,
      221162608, 259682956, 279282779, 292722689, 301721116}},
    {1000,
     {1876085, 31308566, 59776718, 71834192, 97499724, 100188615, 134972424, 142751402, 178377549, 180579936, 219367837,
      221375066, 245391246, 270637420, 285992863, 304819575}},
    {2000,
     {19790471, 34833089, 42404878, 69061955, 86249091, 105322281, 133942170, 152120809, 172190926, 185410703,
      205959965, 232453570, 252787123, 273475306, 280450173, 315915558}},
};

TEST(NgramHash, RowsEqualTheReferenceAlongATextWithAnEndOfTextInside) {
  const NgramConfig c = real_config();
  std::vector<int32_t> previous;
  for (const Vector& v : kVectors) {
    EXPECT_EQ(rows_of(c, v.token, previous), std::vector<uint64_t>(v.rows.begin(), v.rows.end()))
        << "token " << v.token;
    previous.push_back(v.token);
  }
}

TEST(NgramHash, OnlyTheLastPredecessorsMatter) {
  const NgramConfig c = real_config();
  EXPECT_EQ(rows_of(c, 5, {1, 2, 3, 4}), rows_of(c, 5, {99, kEos, 3, 4}));
  EXPECT_NE(rows_of(c, 5, {3, 4}), rows_of(c, 5, {7, 4}));
}

TEST(NgramHash, TheStartOfASequenceReadsLikeAnEndOfText) {
  const NgramConfig c = real_config();
  EXPECT_EQ(rows_of(c, 5, {}), rows_of(c, 5, {kEos, kEos}));
  EXPECT_EQ(rows_of(c, 5, {7}), rows_of(c, 5, {kEos, 7}));
}

TEST(NgramHash, AnEndOfTextHidesWhatCameBeforeIt) {
  const NgramConfig c = real_config();
  EXPECT_EQ(rows_of(c, 5, {7, kEos}), rows_of(c, 5, {8, kEos}));
  EXPECT_EQ(rows_of(c, 5, {7, kEos}), rows_of(c, 5, {kEos, kEos}));
}

TEST(NgramHash, AnEndOfTextAsTheTokenItselfKeepsItsContext) {
  const NgramConfig c = real_config();
  EXPECT_NE(rows_of(c, kEos, {7, 8}), rows_of(c, kEos, {7, 9}));
  EXPECT_NE(rows_of(c, kEos, {7, 8}), rows_of(c, kEos, {9, 8}));
}

TEST(NgramHash, TwoGramHeadsLookAtOnePredecessorOnly) {
  const NgramConfig c = real_config();
  const auto a = rows_of(c, 5, {7, 8}), b = rows_of(c, 5, {9, 8});
  for (size_t h = 0; h < 8; ++h) EXPECT_EQ(a[h], b[h]) << "head " << h;
  for (size_t h = 8; h < 16; ++h) EXPECT_NE(a[h], b[h]) << "head " << h;
}

TEST(NgramHash, EveryRowLiesInsideItsHead) {
  NgramConfig c = real_config();
  c.head_rows.assign(16, 7);
  for (int32_t token = 0; token < 2000; ++token) {
    const auto rows = rows_of(c, token * 124, {token, 3 * token});
    for (size_t h = 0; h < rows.size(); ++h) {
      ASSERT_GE(rows[h], c.head_offsets[h]);
      ASSERT_LT(rows[h], c.head_offsets[h] + 7);
    }
  }
}

// size 2: no three-grams; size 4: one more mix of products.
TEST(NgramHash, OtherSizesMixAsManyTokensAsTheySay) {
  NgramConfig c;
  c.eos = TokenId(0);
  c.heads_per_size = 1;
  c.size = 2, c.multipliers = {3, 5}, c.head_rows = {1000}, c.head_offsets = {10};
  EXPECT_EQ(rows_of(c, 7, {9, 4}), (std::vector<uint64_t>{(7 * 3 ^ 4 * 5) + 10}));
  c.size = 4, c.multipliers = {3, 5, 11, 13}, c.head_rows = {1000, 1000, 1000}, c.head_offsets = {0, 1000, 2000};
  EXPECT_EQ(rows_of(c, 7, {6, 9, 4}), (std::vector<uint64_t>{7 * 3 ^ 4 * 5, (7 * 3 ^ 4 * 5 ^ 9 * 11) + 1000,
                                                             (7 * 3 ^ 4 * 5 ^ 9 * 11 ^ 6 * 13) + 2000}));
}

TEST(NgramHash, ProductsBeyond63BitsWrapAsUnsignedNumbers) {
  NgramConfig c;
  c.size = 2, c.heads_per_size = 1, c.eos = TokenId(0);
  c.multipliers = {UINT64_MAX, 1}, c.head_rows = {UINT64_MAX}, c.head_offsets = {0};
  EXPECT_EQ(rows_of(c, 2, {0}), (std::vector<uint64_t>{UINT64_MAX - 1}));
}

}  // namespace
}  // namespace strata
