// A model that can be computed by hand: its recurrent state is a fold over the tokens, its keys and values are the
// tokens. A step follows the protocol of state_views.h as a real one does, so that whatever state/ loses, keeps too
// long or confuses shows in what it remembers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "quant/half.h"
#include "state/sequence.h"

namespace strata::testing {

inline ModelConfig fake_config(int block_tokens = 4) {
  ModelConfig c;
  c.streams = 2, c.d_model = 3;
  c.heads = c.kv_heads = 1, c.head_dim = 4;
  c.index_heads = block_tokens > 0 ? 1 : 0, c.index_dim = block_tokens > 0 ? 2 : 0, c.block_tokens = block_tokens;
  c.gdn_k_heads = 1, c.gdn_v_heads = 2, c.gdn_k_dim = 2, c.gdn_v_dim = 3, c.gdn_conv_kernel = 3;
  c.n_delta_net = 2, c.n_attention = 2;
  c.has_ngrams = true;
  c.ngram.size = 3, c.ngram.conv_kernel = 3;
  return c;
}

inline float advance(float state, float token, int layer) {
  return static_cast<float>((static_cast<int>(state) * 31 + static_cast<int>(token) + layer + 1) % 99991);
}

// The last rows of (base ++ first n rows of more); every channel of a row holds its token.
inline std::vector<float> last_rows(const ConvState& c, const float* more, int n) {
  std::vector<float> all(c.base, c.base + static_cast<size_t>(c.rows) * static_cast<size_t>(c.width));
  if (n > 0) all.insert(all.end(), more, more + static_cast<size_t>(n) * static_cast<size_t>(c.width));
  return {all.end() - static_cast<std::ptrdiff_t>(c.rows) * c.width, all.end()};
}

inline void absorb(SequenceView& v, int n_layers) {
  const auto log = static_cast<size_t>(v.log_current);
  const auto conv = [&](ConvState& c) {
    const auto rows = last_rows(c, c.log[log], v.kept_rows);
    std::copy(rows.begin(), rows.end(), c.base);
  };
  for (int layer = 0; layer < n_layers; ++layer) {
    GdnState& s = v.gdn[layer];
    for (int r = 0; r < v.kept_rows; ++r) *s.base = advance(*s.base, s.update[log][r], layer);
    conv(s.conv);
  }
  conv(v.ple);
}

inline void fill_rows(float* to, int width, std::span<const TokenRecord> rows) {
  for (const TokenRecord& r : rows) to = std::fill_n(to, width, static_cast<float>(r.token.v));
}

inline void store_value(const KvView& kv, std::byte* at, float value) {
  if (kv.format == KvFormat::f32) return void(std::memcpy(at, &value, sizeof value));
  const uint16_t half = float_to_half(value);
  std::memcpy(at, &half, sizeof half);
}
inline float load_value(const KvView& kv, const std::byte* at) {
  float value = 0;
  uint16_t half = 0;
  kv.format == KvFormat::f32 ? std::memcpy(&value, at, sizeof value) : std::memcpy(&half, at, sizeof half);
  return kv.format == KvFormat::f32 ? value : half_to_float(half);
}

class FakeModel {
 public:
  explicit FakeModel(const ModelConfig& c = fake_config(), KvFormat format = KvFormat::f32, size_t n_pages = 16,
                     SequenceLimits limits = {512, 96})
      : config(c), limits_(limits), pages(PagePool::create(memory_, kv_geometry(c, format), n_pages).value()) {}

  std::unique_ptr<Sequence> sequence() {
    return Sequence::create(*pages, running_geometry(config), limits_,
                            [this](SequenceView& v) {
                              ++settled;
                              absorb(v, config.n_delta_net);
                            })
        .value();
  }

  // Computes the rows and keeps the first n_keep of them (-1: all).
  Status step(Sequence& s, std::span<const TokenRecord> rows, int n_keep = -1) {
    ASSIGN_OR_RETURN(const Segment segment, s.begin(rows));
    compute(segment, rows);
    s.commit(n_keep < 0 ? static_cast<int>(rows.size()) : n_keep);
    return {};
  }
  void compute(const Segment& segment, std::span<const TokenRecord> rows) const;
  // Everything that the sequence remembers is what its records say; leaves it as it was.
  void expect_consistent(Sequence& s) const;

 private:
  void compute_running(SequenceView& v, RowRole role, std::span<const TokenRecord> rows) const;
  void expect_running(const SequenceView& v, std::span<const TokenRecord> records) const;
  void expect_positional(const SequenceView& v, std::span<const TokenRecord> records) const;
  static float key_of(const TokenRecord& r, int layer) { return static_cast<float>(r.token.v * (layer + 1)); }

  HostMemory memory_;

 public:
  const ModelConfig config;

 private:
  const SequenceLimits limits_;

 public:
  const std::unique_ptr<PagePool> pages;
  int settled = 0;
};

inline void FakeModel::compute_running(SequenceView& v, RowRole role, std::span<const TokenRecord> rows) const {
  absorb(v, config.n_delta_net);
  const auto other = static_cast<size_t>(1 - v.log_current);
  const auto conv = [&](ConvState& c) {
    if (role == RowRole::generated) return fill_rows(c.log[other], c.width, rows);
    std::vector<float> inputs(rows.size() * static_cast<size_t>(c.width));
    fill_rows(inputs.data(), c.width, rows);
    const auto last = last_rows(c, inputs.data(), static_cast<int>(rows.size()));
    std::copy(last.begin(), last.end(), c.next);
  };
  for (int layer = 0; layer < config.n_delta_net; ++layer) {
    GdnState& s = v.gdn[layer];
    float state = *s.base;
    for (size_t r = 0; r < rows.size(); ++r) {
      const auto token = static_cast<float>(rows[r].token.v);
      state = advance(state, token, layer);
      if (role == RowRole::generated) s.update[other][r] = token;
    }
    if (role == RowRole::prompt) *s.next = state;
    conv(s.conv);
  }
  conv(v.ple);
}

inline void FakeModel::compute(const Segment& segment, std::span<const TokenRecord> rows) const {
  SequenceView& v = *segment.sequence;
  compute_running(v, segment.role, rows);
  const KvView& kv = v.kv;
  for (int layer = 0; layer < config.n_attention; ++layer) {
    for (size_t r = 0; r < rows.size(); ++r) {
      const Pos p = segment.first_pos + static_cast<Pos>(r);
      store_value(kv, kv.k(layer, p), key_of(rows[r], layer));
      store_value(kv, kv.v(layer, p), key_of(rows[r], layer) + 1);
      if (config.block_tokens == 0) continue;
      kv.raw_key(layer, p)[1] = key_of(rows[r], layer);
      kv.ring_pos[p % kv.ring_rows] = rows[r].pos;
      if ((p + 1) % config.block_tokens != 0) continue;
      float sum = 0;
      for (Pos q = p + 1 - config.block_tokens; q <= p; ++q) sum += kv.raw_key(layer, q)[1];
      kv.block_key(layer, p / config.block_tokens)[1] = sum;
    }
  }
}

inline void FakeModel::expect_running(const SequenceView& v, std::span<const TokenRecord> records) const {
  ASSERT_LE(static_cast<size_t>(v.kept_rows), records.size());
  const auto log = static_cast<size_t>(v.log_current);
  const auto conv = [&](const ConvState& c) {
    const auto got = last_rows(c, c.log[log], v.kept_rows);
    for (int i = 0; i < c.rows; ++i) {
      const auto back = static_cast<size_t>(c.rows - i);
      const float want = back > records.size() ? 0 : static_cast<float>(records[records.size() - back].token.v);
      ASSERT_EQ(got[static_cast<size_t>(i) * static_cast<size_t>(c.width)], want)
          << "convolution input " << back << " before the end";
    }
  };
  for (int layer = 0; layer < config.n_delta_net; ++layer) {
    const GdnState& s = v.gdn[layer];
    float got = *s.base, want = 0;
    for (int r = 0; r < v.kept_rows; ++r) got = advance(got, s.update[log][r], layer);
    for (const TokenRecord& r : records) want = advance(want, static_cast<float>(r.token.v), layer);
    ASSERT_EQ(got, want) << "state of layer " << layer;
    conv(s.conv);
  }
  conv(v.ple);
}

inline void FakeModel::expect_positional(const SequenceView& v, std::span<const TokenRecord> records) const {
  const KvView& kv = v.kv;
  const auto length = static_cast<Pos>(records.size());
  for (int layer = 0; layer < config.n_attention; ++layer) {
    for (Pos p = 0; p < length; ++p) {
      const float want = key_of(records[static_cast<size_t>(p)], layer);
      ASSERT_EQ(load_value(kv, kv.k(layer, p)), want) << "key at " << p;
      ASSERT_EQ(load_value(kv, kv.v(layer, p)), want + 1) << "value at " << p;
    }
    if (config.block_tokens == 0) continue;
    const Pos open = length / config.block_tokens * config.block_tokens;
    for (Pos first = 0; first < open; first += config.block_tokens) {
      float want = 0;
      for (Pos p = first; p < first + config.block_tokens; ++p) want += key_of(records[static_cast<size_t>(p)], layer);
      ASSERT_EQ(kv.block_key(layer, first / config.block_tokens)[1], want) << "block from " << first;
    }
    for (Pos p = open; p < length; ++p) {
      ASSERT_EQ(kv.raw_key(layer, p)[1], key_of(records[static_cast<size_t>(p)], layer)) << "open key at " << p;
      ASSERT_EQ(kv.ring_pos[p % kv.ring_rows], records[static_cast<size_t>(p)].pos)
          << "position of the open key at " << p;
    }
  }
}

inline void FakeModel::expect_consistent(Sequence& s) const {
  const std::vector<TokenRecord> records(s.records().begin(), s.records().end());
  ASSERT_EQ(static_cast<size_t>(s.length()), records.size());
  const TokenRecord probe = TokenRecord::text(TokenId(1), s.next_position(), RowRole::generated);
  const auto segment = s.room() > 0 ? s.begin(std::span(&probe, 1)) : s.reach(s.length() - 1, 1);
  if (!segment.ok()) return;  // no page left to look through
  expect_running(*segment->sequence, records);
  expect_positional(*segment->sequence, records);
  s.abandon();
}

// n tokens that follow what the sequence knows, numbered on from `token`.
inline std::vector<TokenRecord> rows_after(const Sequence& s, int n, RowRole role, int token) {
  std::vector<TokenRecord> rows;
  const int position = s.next_position();
  for (int i = 0; i < n; ++i) rows.push_back(TokenRecord::text(TokenId((token + i) % 500), position + i, role));
  return rows;
}

}  // namespace strata::testing
