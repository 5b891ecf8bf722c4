#include "quant/formats.h"

#include <set>

#include "quant/vectors.h"

namespace strata {
namespace {

template <class... Blocks>
std::set<DType> expect_blocks_match_traits() {
  const auto check = []<class Block>(const Block*) {
    EXPECT_EQ(traits(Block::kType).block_elems, Block::kElems) << type_name(Block::kType);
    EXPECT_EQ(traits(Block::kType).block_bytes, static_cast<int>(sizeof(Block))) << type_name(Block::kType);
    EXPECT_EQ(256 % Block::kElems, 0) << type_name(Block::kType);
    return Block::kType;
  };
  return {check(static_cast<const Blocks*>(nullptr))...};
}

TEST(Formats, EveryTypeHasABlockOfTheSizeItsTraitsState) {
  std::set<DType> seen = expect_blocks_match_traits<BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, BlockQ2_0,
                                                    BlockQ2_K, BlockQ3_K, BlockQ4_K, BlockQ5_K, BlockQ6_K, BlockIQ1_S,
                                                    BlockIQ1_M, BlockIQ2_XXS, BlockIQ2_XS, BlockIQ2_S, BlockIQ3_XXS,
                                                    BlockIQ3_S, BlockIQ4_NL, BlockIQ4_XS, BlockMXFP4, BlockNVFP4>();
  seen.insert({DType::F32, DType::F16, DType::BF16});
  for (const TypeTraits& t : all_types()) EXPECT_EQ(seen.count(t.type), 1u) << t.name;
  EXPECT_EQ(seen.size(), all_types().size());
}

TEST(Formats, TheRecordedVectorsHaveTheSameGeometry) {
  const std::vector<Vector> vectors = all_vectors();
  EXPECT_EQ(vectors.size() + 1, all_types().size());  // F32 needs none
  for (const Vector& v : vectors) {
    std::string name = type_name(v.type);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    EXPECT_EQ(name, v.name);
    EXPECT_EQ(traits(v.type).block_elems, v.block_elems) << v.name;
    EXPECT_EQ(traits(v.type).block_bytes, v.block_bytes) << v.name;
  }
}

TEST(Formats, SixBitScalesAreTakenFromTheBitsOfTheirGroup) {
  // Setting all bits but one group's must leave that group zero, and the other way round.
  for (int group = 0; group < 8; ++group) {
    uint8_t scales[12] = {};
    if (group < 4) {
      scales[group] = 63;
      scales[group + 4] = 63;
    } else {
      scales[group + 4] = 0xff;
      scales[group - 4] = 0xc0;
      scales[group] = 0xc0;
    }
    for (int j = 0; j < 8; ++j) {
      const ScaleMin s = scale_min_of_group(scales, j);
      EXPECT_EQ(s.scale, j == group ? 63 : 0) << group << " " << j;
      EXPECT_EQ(s.min, j == group ? 63 : 0) << group << " " << j;
    }
  }
}

}  // namespace
}  // namespace strata
