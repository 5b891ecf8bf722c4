// The gated delta net. One task runs everything that belongs to one key head of one sequence: its channels of the
// convolution and the value heads that use it, strip by strip of the state's columns, which do not depend on each
// other.
#include <algorithm>
#include <cmath>

#include "cpu/conv.h"
#include "cpu/ops_cpu.h"
#include "cpu/scratch.h"

namespace strata {
namespace {

float softplus(float x) {
  return x > 20.0f ? x : std::log1p(std::exp(x));
}

float sigmoid(float x) {
  const float e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}

// Columns [first, first + count) of a state head [k_dim, v_dim], from or to a strip; columns beyond are 0.
void load_strip(const GdnWeights& w, const float* head, int first, int count, float* z) {
  for (int i = 0; i < w.k_dim; ++i, z += kDeltaStrip) {
    std::copy_n(head + static_cast<int64_t>(i) * w.v_dim + first, count, z);
    std::fill_n(z + count, kDeltaStrip - count, 0.0f);
  }
}
void store_strip(const GdnWeights& w, const float* z, int first, int count, float* head) {
  for (int i = 0; i < w.k_dim; ++i) {
    std::copy_n(z + static_cast<int64_t>(i) * kDeltaStrip, count, head + static_cast<int64_t>(i) * w.v_dim + first);
  }
}

int64_t head_at(const GdnWeights& w, int head) {
  return static_cast<int64_t>(head) * w.k_dim * w.v_dim;
}

// Applies the kept rows of the current log to a strip.
void advance_kept(const Kernels& k, const GdnWeights& w, const GdnState& state, const SequenceView& sequence, int head,
                  int first, int count, float* z) {
  const auto log = static_cast<size_t>(sequence.log_current);
  for (int r = 0; r < sequence.kept_rows; ++r) {
    float update[kDeltaStrip] = {};
    std::copy_n(state.update[log] + static_cast<int64_t>(r) * w.value_width() + head * w.v_dim + first, count, update);
    const float* key = state.key[log] + (static_cast<int64_t>(r) * w.k_heads + head % w.k_heads) * w.k_dim;
    k.delta_advance(z, w.k_dim, state.decay[log][r * w.v_heads + head], key, update);
  }
}

class HeadRun {
 public:
  HeadRun(const Workshop& shop, const GdnWeights& w, int ordinal, const GdnInputs& in, const Segment& segment,
          int k_head, MatF32 out, int thread)
      : kernels_(shop.kernels),
        w_(w),
        sequence_(*segment.sequence),
        state_(sequence_.gdn[ordinal]),
        k_head_(k_head),
        generated_(segment.role == RowRole::generated),
        qkv_(in.qkv.rows_from(segment.first_row, segment.n_rows)),
        gate_(in.gate.rows_from(segment.first_row, segment.n_rows)),
        beta_(in.beta.rows_from(segment.first_row, segment.n_rows)),
        alpha_(in.alpha.rows_from(segment.first_row, segment.n_rows)),
        out_(out.rows_from(segment.first_row, segment.n_rows)) {
    Carver own = shop.of_thread(thread);
    t_ = GdnTask::carve(own, w.k_dim, w.v_dim);
  }

  void run() {
    for_channels([&](Channels c) { conv_absorb_kept(state_.conv, sequence_, c); });
    for (int r0 = 0; r0 < qkv_.rows; r0 += GdnTask::kRows) {
      const int n = std::min(GdnTask::kRows, qkv_.rows - r0);
      queries_and_keys(r0, n);
      for (int head = k_head_; head < w_.v_heads; head += w_.k_heads) value_head(head, r0, n);
    }
    for_channels([&](Channels c) {
      conv_store(state_.conv, sequence_, generated_ ? RowRole::generated : RowRole::prompt, qkv_, c);
    });
  }

 private:
  Channels query_channels() const { return {k_head_ * w_.k_dim, w_.k_dim}; }
  Channels key_channels() const { return {(w_.k_heads + k_head_) * w_.k_dim, w_.k_dim}; }
  Channels value_channels(int head) const { return {2 * w_.k_heads * w_.k_dim + head * w_.v_dim, w_.v_dim}; }

  template <class F>
  void for_channels(F f) const {
    f(query_channels());
    f(key_channels());
    for (int head = k_head_; head < w_.v_heads; head += w_.k_heads) f(value_channels(head));
  }

  void queries_and_keys(int r0, int n) {
    for (int r = 0; r < n; ++r) {
      float* query = t_.qk + static_cast<int64_t>(r) * 2 * w_.k_dim;
      float* key = query + w_.k_dim;
      conv_row(kernels_, state_.conv, qkv_, r0 + r, w_.conv, w_.conv_kernel, 1, query_channels(), query);
      conv_row(kernels_, state_.conv, qkv_, r0 + r, w_.conv, w_.conv_kernel, 1, key_channels(), key);
      kernels_.unit_norm(query, w_.k_dim, w_.eps, 1.0f / std::sqrt(static_cast<float>(w_.k_dim)));
      kernels_.unit_norm(key, w_.k_dim, w_.eps, 1.0f);
      if (generated_)
        std::copy_n(key, w_.k_dim,
                    state_.key[log()] + (static_cast<int64_t>(r0 + r) * w_.k_heads + k_head_) * w_.k_dim);
    }
  }

  void value_head(int head, int r0, int n) {
    for (int r = 0; r < n; ++r) {
      conv_row(kernels_, state_.conv, qkv_, r0 + r, w_.conv, w_.conv_kernel, 1, value_channels(head),
               t_.v + static_cast<int64_t>(r) * w_.v_dim);
      t_.decay[r] = std::exp(w_.a[head] * softplus(alpha_.row(r0 + r)[head] + w_.dt_bias[head]));
      t_.beta[r] = sigmoid(beta_.row(r0 + r)[head]);
      if (generated_) state_.decay[log()][(r0 + r) * w_.v_heads + head] = t_.decay[r];
    }
    for (int first = 0; first < w_.v_dim; first += kDeltaStrip)
      strip(head, r0, n, first, std::min(kDeltaStrip, w_.v_dim - first));
    for (int r = r0; r < r0 + n; ++r) {
      float* o = out_.row(r) + head * w_.v_dim;
      kernels_.rms_norm(o, w_.norm, w_.v_dim, w_.eps, o);
      kernels_.gate(o, gate_.row(r) + head * w_.v_dim, w_.v_dim);
    }
  }

  // A window works on a copy of the base and leaves its factors in the log; a prompt leaves the whole state in `next`.
  void strip(int head, int r0, int n, int first, int count) {
    const bool at_start = r0 == 0;
    const int64_t at = head_at(w_, head);
    load_strip(w_, (at_start ? state_.base : state_.next) + at, first, count, t_.z);
    if (at_start && sequence_.kept_rows > 0) {
      advance_kept(kernels_, w_, state_, sequence_, head, first, count, t_.z);
      store_strip(w_, t_.z, first, count, state_.base + at);
    }
    for (int r = 0; r < n; ++r) {
      float* v = t_.v_strip + r * kDeltaStrip;
      std::copy_n(t_.v + static_cast<int64_t>(r) * w_.v_dim + first, count, v);
      std::fill_n(v + count, kDeltaStrip - count, 0.0f);
    }
    kernels_.delta_rows(t_.z, {n, w_.k_dim, t_.qk, t_.qk + w_.k_dim, int64_t{2} * w_.k_dim, t_.decay, t_.beta,
                               t_.v_strip, t_.update, t_.out});
    for (int r = 0; r < n; ++r) {
      std::copy_n(t_.out + r * kDeltaStrip, count, out_.row(r0 + r) + head * w_.v_dim + first);
      if (!generated_) continue;
      std::copy_n(t_.update + r * kDeltaStrip, count,
                  state_.update[log()] + static_cast<int64_t>(r0 + r) * w_.value_width() + head * w_.v_dim + first);
    }
    if (!generated_) store_strip(w_, t_.z, first, count, state_.next + at);
  }

  size_t log() const { return static_cast<size_t>(1 - sequence_.log_current); }

  const Kernels& kernels_;
  const GdnWeights& w_;
  const SequenceView& sequence_;
  const GdnState& state_;
  const int k_head_;
  const bool generated_;
  const MatF32 qkv_, gate_, beta_, alpha_, out_;
  GdnTask t_{};
};

}  // namespace

void CpuOps::gdn_mix(const GdnWeights& w, int ordinal, const GdnInputs& in, std::span<const Segment> segments,
                     MatF32 out) {
  CHECK(in.qkv.cols == w.channels() && in.gate.cols == w.value_width() && out.cols == w.value_width(),
        "{} channels, gate of {}, output of {}", in.qkv.cols, in.gate.cols, out.cols);
  for (const Segment& segment : segments) {
    const ConvState& conv = segment.sequence->gdn[ordinal].conv;
    CHECK(conv.rows == w.conv_kernel - 1 && conv.width == w.channels(), "{} remembered rows of {} for {} taps",
          conv.rows, conv.width, w.conv_kernel);
    CHECK(segment.role == RowRole::prompt || segment.n_rows <= kMaxWindow, "{} generated rows in one step",
          segment.n_rows);
  }
  shop_.pool.run(static_cast<int>(segments.size()) * w.k_heads, [&](int task, int thread) {
    HeadRun(shop_, w, ordinal, in, segments[static_cast<size_t>(task / w.k_heads)], task % w.k_heads, out, thread)
        .run();
  });
}

void CpuOps::settle(std::span<const GdnWeights* const> layers, SequenceView& sequence) {
  if (sequence.kept_rows == 0) return;
  for (size_t i = 0; i < layers.size(); ++i) {
    const GdnWeights& w = *layers[i];
    const GdnState& state = sequence.gdn[i];
    shop_.pool.run(w.v_heads, [&](int head, int thread) {
      Carver own = shop_.of_thread(thread);
      float* z = GdnTask::carve(own, w.k_dim, w.v_dim).z;
      float* base = state.base + head_at(w, head);
      for (int first = 0; first < w.v_dim; first += kDeltaStrip) {
        const int count = std::min(kDeltaStrip, w.v_dim - first);
        load_strip(w, base, first, count, z);
        advance_kept(shop_.kernels, w, state, sequence, head, first, count, z);
        store_strip(w, z, first, count, base);
      }
    });
    conv_absorb_kept(state.conv, sequence, {0, state.conv.width});
  }
  if (sequence.ple.rows > 0) conv_absorb_kept(sequence.ple, sequence, {0, sequence.ple.width});
}

}  // namespace strata
