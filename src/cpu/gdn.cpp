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

int64_t head_at(const GdnWeights& w, int head) {
  return static_cast<int64_t>(head) * w.k_dim * w.v_dim;
}

// Columns [first, first + count) of a state head [k_dim, v_dim]: where they lie if they are a whole strip, otherwise a
// copy in which the columns beyond are 0.
struct Strip {
  int first = 0, count = 0;
  float* data = nullptr;
  int64_t stride = 0;

  bool whole() const { return count == kDeltaStrip; }
};
Strip strip_at(const GdnWeights& w, float* head, int first, float* part) {
  Strip s{first, std::min(kDeltaStrip, w.v_dim - first), head + first, w.v_dim};
  if (s.whole()) return s;
  s.data = part;
  s.stride = kDeltaStrip;
  return s;
}
void load_part(const GdnWeights& w, const Strip& s, const float* head) {
  for (int i = 0; i < w.k_dim && !s.whole(); ++i) {
    float* to = std::copy_n(head + static_cast<int64_t>(i) * w.v_dim + s.first, s.count, s.data + i * s.stride);
    std::fill_n(to, kDeltaStrip - s.count, 0.0f);
  }
}
void store_part(const GdnWeights& w, const Strip& s, float* head) {
  for (int i = 0; i < w.k_dim && !s.whole(); ++i)
    std::copy_n(s.data + i * s.stride, s.count, head + static_cast<int64_t>(i) * w.v_dim + s.first);
}

// The kept rows of the current log, as factors of a strip; `kept` has room for updates that are no whole strip.
int kept_factors(const GdnWeights& w, const GdnState& state, const SequenceView& sequence, int head, const Strip& s,
                 float* kept, DeltaFactor* factors) {
  const auto log = static_cast<size_t>(sequence.log_current);
  for (int r = 0; r < sequence.kept_rows; ++r) {
    const float* update = state.update[log] + static_cast<int64_t>(r) * w.value_width() + head * w.v_dim + s.first;
    if (!s.whole()) {
      float* padded = kept + r * kDeltaStrip;
      std::fill(std::copy_n(update, s.count, padded), padded + kDeltaStrip, 0.0f);
      update = padded;
    }
    const float* key = state.key[log] + (static_cast<int64_t>(r) * w.k_heads + head % w.k_heads) * w.k_dim;
    factors[r] = {state.decay[log][r * w.v_heads + head], key, update};
  }
  return sequence.kept_rows;
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
        columns_(whole_strips(w.v_dim)),
        qkv_(in.qkv.rows_from(segment.first_row, segment.n_rows)),
        gate_(in.gate.rows_from(segment.first_row, segment.n_rows)),
        beta_(in.beta.rows_from(segment.first_row, segment.n_rows)),
        alpha_(in.alpha.rows_from(segment.first_row, segment.n_rows)),
        out_(out.rows_from(segment.first_row, segment.n_rows)) {
    Carver own = shop.of_thread(thread);
    t_ = GdnTask::carve(own, w.k_dim, w.v_dim);
    // Of a strip that is not whole, the values beyond are 0.
    if (columns_ != w.v_dim) std::fill_n(t_.v, GdnTask::kRows * columns_, 0.0f);
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

  void convolve(Channels c, int r0, int n, float* out, int64_t stride) const {
    kernels_.mixers->conv_silu(conv_pass(state_.conv, qkv_, w_.conv, w_.conv_kernel, 1, c, r0, n), out, stride);
  }

  float* query(int r) const { return t_.qk + static_cast<int64_t>(r) * 2 * w_.k_dim; }
  float* key(int r) const { return query(r) + w_.k_dim; }

  void queries_and_keys(int r0, int n) {
    convolve(query_channels(), r0, n, query(0), int64_t{2} * w_.k_dim);
    convolve(key_channels(), r0, n, key(0), int64_t{2} * w_.k_dim);
    for (int r = 0; r < n; ++r) {
      kernels_.unit_norm(query(r), w_.k_dim, w_.eps, 1.0f / std::sqrt(static_cast<float>(w_.k_dim)));
      kernels_.unit_norm(key(r), w_.k_dim, w_.eps, 1.0f);
      const float* q = query(r);
      kernels_.dot_tile(key(r), w_.k_dim, 1, &q, 1, w_.k_dim, t_.query_key + r, 1);
      if (generated_)
        std::copy_n(key(r), w_.k_dim, state_.key[log()] + (int64_t{r0 + r} * w_.k_heads + k_head_) * w_.k_dim);
    }
  }

  void value_head(int head, int r0, int n) {
    convolve(value_channels(head), r0, n, t_.v, columns_);
    for (int r = 0; r < n; ++r) {
      t_.decay[r] = std::exp(w_.a[head] * softplus(alpha_.row(r0 + r)[head] + w_.dt_bias[head]));
      t_.beta[r] = sigmoid(beta_.row(r0 + r)[head]);
    }
    for (int first = 0; first < w_.v_dim; first += kDeltaStrip)
      generated_ ? window(head, n, first) : chunk(head, r0, n, first);
    for (int r = 0; r < n; ++r) {
      float* o = out_.row(r0 + r) + head * w_.v_dim;
      kernels_.rms_norm(t_.out + r * columns_, w_.norm, w_.v_dim, w_.eps, o);
      kernels_.gate(o, gate_.row(r0 + r) + head * w_.v_dim, w_.v_dim);
      if (!generated_) continue;
      state_.decay[log()][r * w_.v_heads + head] = t_.decay[r];
      std::copy_n(t_.update + r * columns_, w_.v_dim,
                  state_.update[log()] + static_cast<int64_t>(r) * w_.value_width() + head * w_.v_dim);
    }
  }

  // Row r reads the state as it is after the factors of a pass.
  void read_row(int r, int first, DeltaPass pass) const {
    pass.k_dim = w_.k_dim;
    pass.key = key(r);
    pass.query = query(r);
    pass.query_key = t_.query_key[r];
    pass.decay = t_.decay[r];
    pass.beta = t_.beta[r];
    pass.value = t_.v + r * columns_ + first;
    pass.update = t_.update + r * columns_ + first;
    pass.out = t_.out + r * columns_ + first;
    kernels_.mixers->delta_pass(pass);
  }
  DeltaFactor factor_of(int r, int first) const { return {t_.decay[r], key(r), t_.update + r * columns_ + first}; }

  // The first row reads the base, into which the kept rows go on the way.
  Strip first_row(int head, int first) {
    float* base = state_.base + head_at(w_, head);
    const Strip s = strip_at(w_, base, first, t_.part);
    load_part(w_, s, base);
    DeltaFactor kept[kMaxWindow];
    const int n_kept = kept_factors(w_, state_, sequence_, head, s, t_.kept, kept);
    read_row(0, first, {0, s.data, s.stride, n_kept > 0 ? s.data : nullptr, s.stride, kept, n_kept});
    if (n_kept > 0) store_part(w_, s, base);
    return s;
  }

  // Rows from 1 on, each from the state that the one before it read; the last result is left to the caller to advance.
  Strip other_rows(Strip s, int n, int first, bool keep_last) {
    for (int r = 1; r < n; ++r) {
      const DeltaFactor before = factor_of(r - 1, first);
      const bool keep = keep_last || r + 1 < n;
      read_row(r, first, {0, s.data, s.stride, keep ? t_.z : nullptr, kDeltaStrip, &before, 1});
      s.data = t_.z;
      s.stride = kDeltaStrip;
    }
    return s;
  }

  // A window leaves the base as it is but for the kept rows, and its own factors in the log.
  void window(int head, int n, int first) { other_rows(first_row(head, first), n, first, false); }

  // A prompt leaves the whole state in `next`.
  void chunk(int head, int r0, int n, int first) {
    float* next = state_.next + head_at(w_, head);
    Strip s = strip_at(w_, next, first, t_.part);
    const Strip to = s;
    if (r0 == 0) {
      s = first_row(head, first);
    } else {
      load_part(w_, s, next);
      read_row(0, first, {0, s.data, s.stride, nullptr, 0, nullptr, 0});
    }
    s = other_rows(s, n, first, true);
    const DeltaFactor last = factor_of(n - 1, first);
    kernels_.mixers->delta_pass({w_.k_dim, s.data, s.stride, to.data, to.stride, &last, 1});
    store_part(w_, to, next);
  }

  size_t log() const { return static_cast<size_t>(1 - sequence_.log_current); }

  const Kernels& kernels_;
  const GdnWeights& w_;
  const SequenceView& sequence_;
  const GdnState& state_;
  const int k_head_;
  const bool generated_;
  const int64_t columns_;  // of a value head, in whole strips
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
      const GdnTask t = GdnTask::carve(own, w.k_dim, w.v_dim);
      float* base = state.base + head_at(w, head);
      for (int first = 0; first < w.v_dim; first += kDeltaStrip) {
        const Strip s = strip_at(w, base, first, t.part);
        load_part(w, s, base);
        DeltaFactor kept[kMaxWindow];
        const int n_kept = kept_factors(w, state, sequence, head, s, t.kept, kept);
        shop_.kernels.mixers->delta_pass({w.k_dim, s.data, s.stride, s.data, s.stride, kept, n_kept});
        store_part(w, s, base);
      }
    });
    conv_absorb_kept(state.conv, sequence, {0, state.conv.width});
  }
  if (sequence.ple.rows > 0) conv_absorb_kept(sequence.ple, sequence, {0, sequence.ple.width});
}

}  // namespace strata
