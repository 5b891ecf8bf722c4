#include "experts/store.h"

#include <gtest/gtest.h>

#include "model/tiny_model.h"

namespace strata {
namespace {

using testing::TinyGeometry;
using testing::TinyModel;

std::shared_ptr<const Model> load(TinyModel& m) {
  const TempDir dir;
  m.write(dir.path("m.gguf"));
  return load_model(dir.path("m.gguf"), "").value();
}

TEST(Store, FindsEveryExpertWhereTheFileMapHasIt) {
  TinyModel m;
  const auto model = load(m);
  const Store store(model);
  const size_t in = 32 * row_bytes(DType::IQ4_NL, 64), out = 64 * row_bytes(DType::Q4_0, 32);
  for (int layer = 0; layer < 4; ++layer) {
    const std::string p = TinyModel::block_prefix(layer);
    for (int e = 0; e < 8; ++e) {
      const ExpertRef ref = store.find(LayerId(layer), ExpertId(e));
      const auto i = static_cast<size_t>(e);
      EXPECT_EQ(ref.gate, model->file->find_tensor(p + "ffn_gate_exps.weight")->data + i * in);
      EXPECT_EQ(ref.up, model->file->find_tensor(p + "ffn_up_exps.weight")->data + i * in);
      EXPECT_EQ(ref.down, model->file->find_tensor(p + "ffn_down_exps.weight")->data + i * out);
      EXPECT_EQ(ref.gate_scale, 1.0f);
    }
  }
}

TEST(Store, ALayerHasTheShapesAndTypesOfItsBlock) {
  TinyModel m;
  const std::string p = TinyModel::block_prefix(2);
  for (const char* name : {"ffn_gate_exps.weight", "ffn_up_exps.weight"}) m.tensor(p + name).shape.ne = {64, 96, 5, 1};
  m.tensor(p + "ffn_down_exps.weight").shape.ne = {96, 64, 5, 1};
  m.tensor(p + "ffn_gate_inp.weight").shape.ne[1] = 5;
  m.tensor(p + "ffn_up_exps.weight").type = DType::Q5_1;
  const auto model = load(m);
  const Store store(model);
  const ExpertLayer &usual = store.layer(LayerId(1)), &other = store.layer(LayerId(2));
  EXPECT_EQ(usual.n_experts, 8);
  EXPECT_EQ(usual.width, 32);
  EXPECT_EQ(usual.up_type, DType::IQ4_NL);
  EXPECT_EQ(other.n_experts, 5);
  EXPECT_EQ(other.n_used, 3);
  EXPECT_EQ(other.d_model, 64);
  EXPECT_EQ(other.width, 96);
  EXPECT_EQ(other.gate_type, DType::IQ4_NL);
  EXPECT_EQ(other.up_type, DType::Q5_1);
  EXPECT_EQ(other.down_type, DType::Q4_0);
  EXPECT_EQ(other.shared.down.cols, 64);
  EXPECT_TRUE(other.shared_gate);
  const FfnWeights last = other.expert(4);
  EXPECT_EQ(last.up.data, store.find(LayerId(2), ExpertId(4)).up);
  EXPECT_EQ(last.down.data + last.down.bytes(), model->file->find_tensor(p + "ffn_down_exps.weight")->data +
                                                    model->file->find_tensor(p + "ffn_down_exps.weight")->bytes);
}

TEST(Store, AFusedStackIsTwoMatricesInOneStride) {
  TinyModel m;
  const std::string p = TinyModel::block_prefix(0);
  m.remove(p + "ffn_gate_exps.weight");
  m.remove(p + "ffn_up_exps.weight");
  m.add(p + "ffn_gate_up_exps.weight", DType::Q8_0, {64, 64, 8});
  const auto model = load(m);
  const Store store(model);
  const GgufTensor& fused = *model->file->find_tensor(p + "ffn_gate_up_exps.weight");
  const size_t half = 32 * row_bytes(DType::Q8_0, 64);
  const ExpertRef last = store.find(LayerId(0), ExpertId(7));
  EXPECT_EQ(last.gate, fused.data + 14 * half);
  EXPECT_EQ(last.up + half, fused.data + fused.bytes);
}

TEST(Store, EveryExpertHasItsOwnExternalScale) {
  TinyModel m;
  m.add("blk.1.ffn_up_exps.scale", DType::F32, {8});
  m.store("blk.1.ffn_up_exps.scale", DType::F32, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto model = load(m);
  const Store store(model);
  for (int e = 0; e < 8; ++e) {
    const ExpertRef ref = store.find(LayerId(1), ExpertId(e));
    EXPECT_EQ(ref.up_scale, static_cast<float>(e + 1));
    EXPECT_EQ(ref.down_scale, 1.0f);
    EXPECT_EQ(store.layer(LayerId(1)).expert(e).up.scale, static_cast<float>(e + 1));
  }
}

TEST(Store, TheDraftBlockIsTheLayerAfterTheTrunk) {
  TinyGeometry g;
  g.draft_experts = 12;
  TinyModel m(g);
  const auto model = load(m);
  const Store store(model);
  EXPECT_EQ(store.layer(LayerId(4)).n_experts, 12);
  EXPECT_EQ(store.find(LayerId(4), ExpertId(0)).gate, model->file->find_tensor("blk.4.ffn_gate_exps.weight")->data);
}

TEST(Store, CountsTheExpertsThatWereUsed) {
  TinyModel m;
  Store store(load(m));
  EXPECT_EQ(store.counts().mapped, 0u);
  store.count(30);
  store.count(3);
  EXPECT_EQ(store.counts().mapped, 33u);
}

// The weights outlive whoever opened the model.
TEST(Store, KeepsTheModelOpen) {
  TinyModel m;
  auto model = load(m);
  const Store store(model);
  model.reset();
  const ExpertRef ref = store.find(LayerId(3), ExpertId(7));
  EXPECT_EQ(
      std::memcmp(ref.gate, m.bytes("blk.3.ffn_gate_exps.weight").data() + 7 * 32 * row_bytes(DType::IQ4_NL, 64), 100),
      0);
}

TEST(StoreDeathTest, AnExpertThatDoesNotExistIsABug) {
  TinyModel m;
  const Store store(load(m));
  EXPECT_DEATH((void)store.find(LayerId(0), ExpertId(8)), "expert 8 of 8");
  EXPECT_DEATH((void)store.find(LayerId(0), ExpertId(-1)), "expert -1 of 8");
}

}  // namespace
}  // namespace strata
