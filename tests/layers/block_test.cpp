// The order of the mathematics: a block is what its operations give when they are called one after the other by hand.
#include "layers/block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>

#include "model/ngram_hash.h"
#include "model/tiny_model.h"
#include "state/sequence.h"

namespace strata {
namespace {

using testing::TinyGeometry;
using testing::TinyModel;

constexpr int kRows = 11, kContext = 64;

// Floats of a test's own, beside the activations.
class Scratch {
 public:
  MatF32 mat(int rows, int cols) {
    return {memory_.emplace_back(static_cast<size_t>(rows) * static_cast<size_t>(cols)).data(), rows, cols};
  }
  MatF32 copy(MatF32 m) {
    const MatF32 out = mat(m.rows, m.cols);
    for (int r = 0; r < m.rows; ++r) std::copy_n(m.row(r), m.cols, out.row(r));
    return out;
  }

 private:
  std::deque<std::vector<float>> memory_;
};

void expect_same(MatF32 a, MatF32 b, const std::string& what) {
  ASSERT_TRUE(a.rows == b.rows && a.cols == b.cols) << what;
  for (int r = 0; r < a.rows; ++r) {
    ASSERT_EQ(std::memcmp(a.row(r), b.row(r), static_cast<size_t>(a.cols) * sizeof(float)), 0) << what << ", row " << r;
  }
}

class Blocks : public ::testing::Test {
 protected:
  Blocks() {
    TinyGeometry g;
    g.context = kContext;
    g.draft_experts = 16;
    TinyModel m(g);
    const TempDir dir;
    m.write(dir.path("m.gguf"));
    model = load_model(dir.path("m.gguf"), "").value();
    store = std::make_unique<Store>(model);
    pages = PagePool::create(ops->memory(), kv_geometry(model->config, KvFormat::f32), 8).value();
    activations = Activations::create(ops->memory(), model->config, kRows, kContext).value();
    for (int r = 0; r < kRows; ++r) {
      rows.push_back(TokenRecord::text(TokenId((7 * r + 3) % 96), r, RowRole::prompt));
      tokens.push_back(rows.back().token);
    }
  }

  std::unique_ptr<Sequence> sequence() {
    return Sequence::create(*pages, running_geometry(model->config), {kContext, kRows}, [](SequenceView&) {}).value();
  }
  Batch batch_of(Sequence& s) {
    Batch b;
    b.segments.push_back(s.begin(rows).value());
    b.tokens = tokens;
    const NgramConfig& n = model->config.ngram;
    for (size_t r = 0; r < rows.size(); ++r) {
      b.positions.push_back(rows[r].pos);
      b.embeddings.push_back(nullptr);
      b.ngram_rows.resize(b.ngram_rows.size() + static_cast<size_t>(n.heads()));
      ngram_rows(n, tokens[r], std::span(tokens).first(r), b.ngram_rows.data() + r * static_cast<size_t>(n.heads()));
    }
    return b;
  }
  LayerContext context() { return {*ops, *model, *store}; }
  // y = w x, one matrix in a call of its own.
  MatF32 times(const Weight& w, MatF32 x) {
    const MatF32 y = own.mat(x.rows, static_cast<int>(w.rows));
    ops->linear(std::span(&w, 1), x, std::span(&y, 1), RowRole::prompt);
    return y;
  }
  HyperRead read(MatF32 streams, const HyperWeights& w) {
    const HyperRead out{own.mat(kRows, w.d_model), own.mat(kRows, w.streams)};
    ops->hyper_step(streams, {}, w, out);
    return out;
  }
  MatF32 random_streams() {
    const MatF32 s = own.mat(kRows, model->config.wide());
    for (int i = 0; i < kRows * s.cols; ++i)
      s.data[i] = std::sin(0.37f * static_cast<float>(i) + 0.01f * static_cast<float>(i % 91));
    return s;
  }
  MatF32 delta_net_by_hand(const Block& b, const Batch& batch, MatF32 x);
  MatF32 attention_by_hand(const Block& b, const Batch& batch, MatF32 x);
  void block_by_hand(size_t index, const Batch& batch, MatF32 streams);

  std::unique_ptr<Ops> ops = make_plain_ops();
  std::shared_ptr<const Model> model;
  std::unique_ptr<Store> store;
  std::unique_ptr<PagePool> pages;
  std::unique_ptr<Activations> activations;
  std::vector<TokenRecord> rows;
  std::vector<TokenId> tokens;
  Scratch own;
};

MatF32 Blocks::delta_net_by_hand(const Block& b, const Batch& batch, MatF32 x) {
  const GdnWeights& w = b.gdn;
  const GdnInputs in{times(w.qkv, x), times(w.gate, x), times(w.beta, x), times(w.alpha, x)};
  const MatF32 mixed = own.mat(kRows, w.value_width());
  ops->gdn_mix(w, b.config.ordinal, in, batch.segments, mixed);
  return times(w.out, mixed);
}

MatF32 Blocks::attention_by_hand(const Block& b, const Batch& batch, MatF32 x) {
  const QsaWeights& w = b.attention;
  const QsaInputs in{times(w.q, x), times(w.k, x), times(w.v, x), times(w.index_q, x), times(w.index_k, x)};
  const Queries q{own.mat(kRows, w.heads * w.head_dim), own.mat(kRows, w.heads * w.head_dim),
                  own.mat(kRows, w.index_heads * w.index_dim)};
  ops->attention_prepare(w, b.config.ordinal, in, batch.positions, batch.segments, q);
  std::vector<int32_t> blocks(static_cast<size_t>(kRows) * 32), count(kRows);
  const Selection selection{blocks.data(), count.data(), 32};
  ops->select_blocks(w, b.config.ordinal, q, batch.segments, selection);
  const MatF32 mixed = own.mat(kRows, w.heads * w.value_dim);
  ops->sparse_attention(w, b.config.ordinal, q, selection, batch.segments, mixed);
  return times(w.out, mixed);
}

void Blocks::block_by_hand(size_t index, const Batch& batch, MatF32 streams) {
  const Block& b = model->blocks[index];
  if (b.config.ngram) {
    ops->ngram_inject(b.ngram, {model->ngram_table, batch.ngram_rows.data(), model->config.ngram.heads()},
                      batch.segments, streams, batch.role);
  }
  const HyperRead a = read(streams, b.attn_hyper);
  const bool delta = b.config.mixer == Mixer::delta_net;
  ops->hyper_flush(streams, {delta ? delta_net_by_hand(b, batch, a.x) : attention_by_hand(b, batch, a.x), a.gains});
  const HyperRead f = read(streams, b.ffn_hyper);
  const int used = b.config.n_experts_used;
  std::vector<int32_t> ids(static_cast<size_t>(kRows * used));
  std::vector<float> weights(ids.size());
  const Routed routed{ids.data(), weights.data(), used};
  ops->route(b.router, f.x, routed);
  const MatF32 y = own.mat(kRows, model->config.d_model);
  ops->experts(store->layer(LayerId(static_cast<int>(index))), f.x, routed, y, batch.role);
  ops->hyper_flush(streams, {y, f.gains});
}

TEST_F(Blocks, EachKindOfBlockIsItsOperationsInOrder) {
  for (const size_t index : {size_t{0}, size_t{1}, size_t{3}}) {  // delta net, the same with n-grams, attention
    const auto a = sequence(), b = sequence();
    const Batch batch_a = batch_of(*a), batch_b = batch_of(*b);
    const MatF32 start = random_streams(), by_hand = own.copy(start);
    block_by_hand(index, batch_b, by_hand);

    activations->resize(kRows);
    std::copy_n(start.data, kRows * start.cols, activations->streams.data);
    SublayerOutput out;
    forward_block(context(), model->blocks[index], LayerId(static_cast<int>(index)), batch_a, *activations, out);
    EXPECT_FALSE(out.empty()) << "the last write is left to the next block";
    ops->hyper_flush(activations->streams, out);
    expect_same(activations->streams, by_hand, "block " + std::to_string(index));
  }
}

TEST_F(Blocks, AWriteThatIsDueComesBeforeTheBlockReads) {
  for (const size_t index : {size_t{0}, size_t{1}, size_t{3}}) {
    const auto a = sequence(), b = sequence();
    const Batch batch_a = batch_of(*a), batch_b = batch_of(*b);
    const MatF32 start = random_streams(), y = own.mat(kRows, 64), gains = own.mat(kRows, 2);
    for (int i = 0; i < kRows * 64; ++i) y.data[i] = std::cos(0.11f * static_cast<float>(i));
    for (int i = 0; i < kRows * 2; ++i) gains.data[i] = 0.1f * static_cast<float>(i);
    const MatF32 by_hand = own.copy(start);
    ops->hyper_flush(by_hand, {y, gains});
    block_by_hand(index, batch_b, by_hand);

    activations->resize(kRows);
    std::copy_n(start.data, kRows * start.cols, activations->streams.data);
    SublayerOutput out{own.copy(y), own.copy(gains)};
    forward_block(context(), model->blocks[index], LayerId(static_cast<int>(index)), batch_a, *activations, out);
    ops->hyper_flush(activations->streams, out);
    expect_same(activations->streams, by_hand, "block " + std::to_string(index));
  }
}

TEST_F(Blocks, TheWholePassIsEmbeddingAndEveryBlockInTurn) {
  const auto a = sequence(), b = sequence();
  const Batch batch_a = batch_of(*a), batch_b = batch_of(*b);
  const MatF32 streams = own.mat(kRows, model->config.wide());
  ops->embed(model->embed, tokens, {}, streams, 2);
  for (size_t i = 0; i < model->blocks.size(); ++i) block_by_hand(i, batch_b, streams);
  forward_blocks(context(), batch_a, *activations);
  expect_same(activations->streams, streams, "the wide residual");
  EXPECT_EQ(store->counts().mapped, uint64_t{kRows} * 3 * 4) << "three experts for each row and block";
}

TEST_F(Blocks, LookingInBetweenChangesNothing) {
  const auto a = sequence(), b = sequence();
  forward_blocks(context(), batch_of(*a), *activations);
  const MatF32 want = own.copy(activations->streams);
  const MatF32 by_hand = own.mat(kRows, model->config.wide());
  const auto c = sequence();
  const Batch batch_c = batch_of(*c);
  ops->embed(model->embed, tokens, {}, by_hand, 2);
  std::vector<int> seen;
  forward_blocks(context(), batch_of(*b), *activations, [&](int index) {
    seen.push_back(index);
    block_by_hand(static_cast<size_t>(index), batch_c, by_hand);
    expect_same(activations->streams, by_hand, "after block " + std::to_string(index));
  });
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3}));
  expect_same(activations->streams, want, "with and without looking");
}

TEST_F(Blocks, LogitsAreTheFinalReadTimesTheOutputMatrixForTheRowsAskedFor) {
  const auto a = sequence();
  const Batch batch = batch_of(*a);
  forward_blocks(context(), batch, *activations);
  const MatF32 streams = own.copy(activations->streams);
  const MatF32 x = own.mat(kRows, 64);
  ops->hyper_step(streams, {}, model->output_hyper, {x, {}});
  const MatF32 want = times(model->head, x);
  logits(context(), Head::trunk, batch, *activations, 0, kRows);
  expect_same({activations->logits.data, kRows, 96}, want, "all rows");
  logits(context(), Head::trunk, batch, *activations, 4, 3);
  expect_same({activations->logits.data, 3, 96}, want.rows_from(4, 3), "rows 4 to 6");
  expect_same(activations->streams, streams, "the residual is only read");
}

TEST_F(Blocks, GivenEmbeddingsTakeThePlaceOfTheTokensOwn) {
  const auto a = sequence(), b = sequence();
  forward_blocks(context(), batch_of(*a), *activations);
  const MatF32 want = own.copy(activations->streams);
  Batch given = batch_of(*b);
  const MatF32 table = own.mat(kRows, 64);
  for (int r = 0; r < kRows; ++r) {
    dequantise_row(model->embed.type, model->embed.row(tokens[static_cast<size_t>(r)].v), 64, table.row(r));
    given.embeddings[static_cast<size_t>(r)] = table.row(r);
  }
  given.tokens.assign(kRows, TokenId(0));  // the n-gram rows stay those of the tokens
  forward_blocks(context(), given, *activations);
  expect_same(activations->streams, want, "the wide residual");
}

// Every stream enters through the same matrix, beside the same embedding.
TEST_F(Blocks, TheDraftHeadFusesEachStreamWithTheNextTokenAndAttendsDensely) {
  const auto a = sequence(), b = sequence();
  const Batch batch_a = batch_of(*a), batch_b = batch_of(*b);
  const DraftHead& d = *model->draft;
  const MatF32 wide = random_streams();
  const MatF32 inputs = own.mat(kRows * 2, 128);
  ops->draft_inputs(d.entry, tokens, wide, inputs);
  const MatF32 fused = times(d.entry.proj, inputs);
  const MatF32 streams(fused.data, kRows, 128);
  const HyperRead r = read(streams, d.block.attn_hyper);
  const QsaWeights& w = d.block.attention;
  const Queries q{own.mat(kRows, 64), own.mat(kRows, 64), {}};
  ops->attention_prepare(w, d.block.config.ordinal, {times(w.q, r.x), times(w.k, r.x), times(w.v, r.x), {}, {}},
                         batch_b.positions, batch_b.segments, q);
  std::vector<int32_t> count(kRows, Selection::kAll);
  const MatF32 mixed = own.mat(kRows, 64);
  ops->sparse_attention(w, d.block.config.ordinal, q, {nullptr, count.data(), 0}, batch_b.segments, mixed);
  ops->hyper_flush(streams, {times(w.out, mixed), r.gains});

  activations->resize(kRows);
  std::copy_n(wide.data, kRows * wide.cols, activations->streams.data);
  draft_cells(context(), batch_a, *activations);
  const KvView& cells = batch_a.segments[0].sequence->kv;
  const KvView& want = batch_b.segments[0].sequence->kv;
  for (Pos p = 0; p < kRows; ++p) {
    EXPECT_EQ(std::memcmp(cells.k(1, p), want.k(1, p), 32 * sizeof(float)), 0) << "key of cell " << p;
    EXPECT_EQ(std::memcmp(cells.v(1, p), want.v(1, p), 32 * sizeof(float)), 0) << "value of cell " << p;
  }
  std::copy_n(wide.data, kRows * wide.cols, activations->streams.data);
  draft_blocks(context(), batch_a, *activations);
  const HyperRead f = read(streams, d.block.ffn_hyper);
  std::vector<int32_t> ids(kRows * 3);
  std::vector<float> weights(ids.size());
  ops->route(d.block.router, f.x, {ids.data(), weights.data(), 3});
  const MatF32 y = own.mat(kRows, 64);
  ops->experts(store->layer(LayerId(4)), f.x, {ids.data(), weights.data(), 3}, y, RowRole::prompt);
  ops->hyper_flush(streams, {y, f.gains});
  expect_same(activations->streams, streams, "the draft head's residual");
}

// --- Memory of a step ---------------------------------------------------------------------------------------------

TEST_F(Blocks, ActivationsTakeExactlyTheBytesThatArePlanned) {
  class Counting final : public Memory {
   public:
    Result<Buffer> allocate(size_t bytes, const std::string& purpose) override {
      return asked += bytes, host.allocate(bytes, purpose);
    }
    void copy(void* to, const void* from, size_t bytes) override { host.copy(to, from, bytes); }
    void zero(void* at, size_t bytes) override { host.zero(at, bytes); }
    HostMemory host;
    size_t asked = 0;
  } memory;
  for (const int n : {8, 100, 512}) {
    memory.asked = 0;
    ASSERT_TRUE(Activations::create(memory, model->config, n, 512).ok());
    EXPECT_EQ(memory.asked, Activations::bytes(model->config, n, 512));
  }
}

TEST_F(Blocks, MoreRowsThanPlannedAreABug) {
  EXPECT_DEATH(activations->resize(kRows + 1), "12 rows, room for 11");
}

}  // namespace
}  // namespace strata
