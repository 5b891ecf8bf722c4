// Random weights, rows and sequences of small shapes, and comparisons, for tests of every implementation of ops/ops.h.
// Everything is host memory and depends on the seeds alone.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/ops.h"
#include "quant/random_blocks.h"
#include "quant/reference.h"

namespace strata::test {

using Vec = std::vector<double>;

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<uint64_t>(n)); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // Mean 0, variance 1, never beyond 6.
  float normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return static_cast<float>(sum);
  }
  std::vector<float> normals(int n, float rms, float mean = 0) {
    std::vector<float> out(static_cast<size_t>(n));
    for (float& x : out) x = mean + rms * normal();
    return out;
  }

 private:
  uint64_t state_;
};

// A matrix with a stride beyond its columns, so that code which ignores the stride fails.
class Mat {
 public:
  Mat(int rows, int cols, int padding = 3)
      : values_(static_cast<size_t>(rows) * static_cast<size_t>(cols + padding), kPadding),
        mat_(values_.data(), rows, cols, cols + padding) {}
  Mat(const Mat&) = delete;
  Mat& operator=(const Mat&) = delete;

  operator MatF32() const { return mat_; }  // NOLINT: a view of itself
  MatF32 mat() const { return mat_; }
  float* row(int r) const { return mat_.row(r); }
  Vec vec(int r) const { return Vec(row(r), row(r) + mat_.cols); }
  void fill(Rng& rng, float rms) {
    for (int r = 0; r < mat_.rows; ++r) {
      for (int c = 0; c < mat_.cols; ++c) row(r)[c] = rms * rng.normal();
    }
  }
  bool padding_untouched() const {
    for (int r = 0; r < mat_.rows; ++r) {
      for (int64_t c = mat_.cols; c < mat_.stride; ++c) {
        if (row(r)[c] != kPadding) return false;
      }
    }
    return true;
  }

 private:
  static constexpr float kPadding = 12345;
  std::vector<float> values_;
  MatF32 mat_;
};

// A weight of any format with random blocks, and the values that it stands for.
class TestWeight {
 public:
  TestWeight() = default;
  TestWeight(Rng& rng, DType type, int rows, int cols, float rms) : weight_{type, cols, rows} {
    bytes_.resize(weight_.bytes());
    // NVFP4 blocks cannot be small: their external factor is.
    const float block_rms = type == DType::NVFP4 ? 1.0f : rms;
    weight_.scale = type == DType::NVFP4 ? rms : 1.0f;
    random_blocks(type, rng.next(), static_cast<int64_t>(rows) * cols / traits(type).block_elems, bytes_.data(),
                  block_rms);
    weight_.data = bytes_.data();
    decode();
  }
  // Exactly these float32 values, row by row.
  TestWeight(int rows, int cols, const std::vector<float>& values) : weight_{DType::F32, cols, rows} {
    bytes_.resize(weight_.bytes());
    std::memcpy(bytes_.data(), values.data(), bytes_.size());
    weight_.data = bytes_.data();
    decode();
  }
  TestWeight(TestWeight&&) = default;
  TestWeight& operator=(TestWeight&&) = default;

  const Weight& w() const { return weight_; }
  double at(int r, int c) const { return values_[static_cast<size_t>(r * weight_.cols + c)]; }
  Vec row(int r) const {
    Vec out(static_cast<size_t>(weight_.cols));
    for (size_t c = 0; c < out.size(); ++c) out[c] = at(r, static_cast<int>(c));
    return out;
  }
  Vec times(const Vec& x) const {
    Vec y(static_cast<size_t>(weight_.rows));
    for (size_t r = 0; r < y.size(); ++r) {
      for (size_t c = 0; c < x.size(); ++c) y[r] += at(static_cast<int>(r), static_cast<int>(c)) * x[c];
    }
    return y;
  }

 private:
  void decode() {
    values_.resize(static_cast<size_t>(weight_.rows * weight_.cols));
    std::vector<float> row(static_cast<size_t>(weight_.cols));
    for (int64_t r = 0; r < weight_.rows; ++r) {
      dequantise_row(weight_.type, weight_.row(r), weight_.cols, row.data());
      for (size_t c = 0; c < row.size(); ++c) {
        values_[static_cast<size_t>(r) * row.size() + c] =
            static_cast<double>(row[c]) * static_cast<double>(weight_.scale);
      }
    }
  }

  Weight weight_;
  std::vector<std::byte> bytes_;
  std::vector<double> values_;
};

// What a sequence must remember, and how many tokens it may hold.
struct SequenceShape {
  std::vector<const GdnWeights*> gdn;
  const PleWeights* ple = nullptr;
  std::vector<const QsaWeights*> qsa;
  KvFormat format = KvFormat::f32;
  int max_tokens = 256;
  int ring_rows = 160;
};

// One timeline with its memory; commit() follows the protocol of state_views.h.
class TestSequence {
 public:
  explicit TestSequence(const SequenceShape& shape) {
    gdn_.resize(shape.gdn.size());
    for (size_t i = 0; i < gdn_.size(); ++i) {
      const GdnWeights& w = *shape.gdn[i];
      gdn_[i].base = floats(w.v_heads * w.k_dim * w.v_dim, 0);
      gdn_[i].next = floats(w.v_heads * w.k_dim * w.v_dim);
      for (size_t log = 0; log < 2; ++log) {
        gdn_[i].decay[log] = floats(kMaxWindow * w.v_heads);
        gdn_[i].key[log] = floats(kMaxWindow * w.k_heads * w.k_dim);
        gdn_[i].update[log] = floats(kMaxWindow * w.v_heads * w.v_dim);
      }
      gdn_[i].conv = conv(w.conv_kernel - 1, w.channels());
    }
    view_.gdn = gdn_.data();
    if (shape.ple != nullptr) view_.ple = conv(shape.ple->history_rows(), shape.ple->streams * shape.ple->d_model);
    make_pages(shape);
  }
  TestSequence(const TestSequence&) = delete;
  TestSequence& operator=(const TestSequence&) = delete;

  SequenceView& view() { return view_; }
  Pos length() const { return length_; }
  Segment segment(int first_row, int n_rows, RowRole role) { return {&view_, first_row, n_rows, length_, role}; }

  // Makes the first n_keep rows of the last step permanent; of a prompt chunk all or none.
  void commit(RowRole role, int n_rows, int n_keep) {
    ASSERT_TRUE(n_keep >= 0 && n_keep <= n_rows);
    if (role == RowRole::generated) {
      view_.log_current = 1 - view_.log_current;
      view_.kept_rows = n_keep;
    } else {
      ASSERT_TRUE(n_keep == 0 || n_keep == n_rows);
      if (n_keep > 0) {
        for (GdnState& g : gdn_) {
          std::swap(g.base, g.next);
          std::swap(g.conv.base, g.conv.next);
        }
        std::swap(view_.ple.base, view_.ple.next);
      }
      view_.kept_rows = 0;  // they went into the base while the chunk was computed
    }
    length_ += n_keep;
  }

 private:
  // Memory that nobody wrote yet holds NaN, so that reading it shows.
  float* floats(int n, float value = NAN) {
    memory_.push_back(std::make_unique<std::vector<float>>(static_cast<size_t>(n), value));
    return memory_.back()->data();
  }
  ConvState conv(int rows, int width) {
    ConvState state{floats(rows * width, 0), floats(rows * width), {}, rows, width};
    for (float*& log : state.log) log = floats(kMaxWindow * width);
    return state;
  }
  void make_pages(const SequenceShape& shape) {
    size_t bytes = 0;
    const size_t value_bytes = shape.format == KvFormat::f32 ? 4 : 2;
    for (const QsaWeights* w : shape.qsa) {
      KvLayer layer;
      layer.k_width = w->kv_heads * w->head_dim;
      layer.v_width = w->kv_heads * w->value_dim;
      layer.k_offset = bytes;
      layer.v_offset = layer.k_offset + value_bytes * static_cast<size_t>(kPageTokens * layer.k_width);
      layer.block_key_offset = layer.v_offset + value_bytes * static_cast<size_t>(kPageTokens * layer.v_width);
      bytes = layer.block_key_offset;
      if (w->budget_blocks > 0) {
        layer.index_dim = w->index_dim;
        layer.block_tokens = w->block_tokens;
        layer.raw_ring = floats(shape.ring_rows * w->index_dim);
        bytes += 4 * static_cast<size_t>(kPageTokens / w->block_tokens * w->index_dim);
      }
      layers_.push_back(layer);
    }
    for (int p = 0; p < shape.max_tokens; p += kPageTokens) {
      pages_.push_back(reinterpret_cast<std::byte*>(floats(static_cast<int>(bytes / 4))));
    }
    ring_pos_.resize(static_cast<size_t>(shape.ring_rows), Pos3{-1, -1, -1});
    view_.kv = {shape.format, pages_.data(), layers_.data(), ring_pos_.data(), shape.ring_rows};
  }

  std::vector<std::unique_ptr<std::vector<float>>> memory_;
  std::vector<GdnState> gdn_;
  std::vector<KvLayer> layers_;
  std::vector<std::byte*> pages_;
  std::vector<Pos3> ring_pos_;
  SequenceView view_;
  Pos length_ = 0;
};

// How far an implementation may be from the exact value: the largest difference in a row, relative to the row's root
// mean square.
struct Tolerance {
  double f32 = 0;                     // operations on float32 values: order of sums, elementary functions
  double products = 0;                // matrix products, whose inputs an implementation may round
  bool prompt_equals_decode = false;  // a prompt chunk gives the bits of decoding its rows one by one
};

inline double row_error(const float* got, const Vec& want) {
  double square = 0, worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    square += want[i] * want[i];
    const double difference = std::fabs(static_cast<double>(got[i]) - want[i]);
    if (!(difference <= worst)) worst = difference;  // a NaN stays
  }
  const double rms = std::sqrt(square / static_cast<double>(want.size()));
  return rms > 0 ? worst / rms : worst;
}

inline void expect_near(const float* got, const Vec& want, double tolerance, const std::string& what) {
  const double error = row_error(got, want);
  EXPECT_TRUE(error <= tolerance) << what << ": error " << error << ", allowed " << tolerance;
}

inline void expect_same_bits(const float* got, const float* want, int n, const std::string& what) {
  EXPECT_EQ(std::memcmp(got, want, static_cast<size_t>(n) * sizeof(float)), 0) << what << " differs";
}

// The same bits from every instruction set with fused products; the generic one, which has none, comes near.
inline void expect_one_answer(std::string_view isa, const std::vector<float>& got, const std::vector<float>& fused,
                              const std::string& what) {
  ASSERT_EQ(got.size(), fused.size());
  if (isa != "generic") return expect_same_bits(got.data(), fused.data(), static_cast<int>(got.size()), what);
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isfinite(fused[i])) continue;
    EXPECT_TRUE(std::isnan(fused[i]) ? std::isnan(got[i]) : got[i] == fused[i]) << what << " at " << i;
  }
  Vec finite;
  std::vector<float> there;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(fused[i])) continue;
    finite.push_back(fused[i]);
    there.push_back(got[i]);
  }
  if (!finite.empty()) expect_near(there.data(), finite, 1e-5, what);
}

}  // namespace strata::test
