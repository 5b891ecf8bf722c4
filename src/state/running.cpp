#include "state/running.h"

#include <cstring>
#include <utility>

namespace strata {
namespace {

size_t conv_total(int rows, int width) {
  const size_t history = Arena::padded(sizeof(float) * static_cast<size_t>(rows) * static_cast<size_t>(width));
  const size_t log = Arena::padded(sizeof(float) * kMaxWindow * static_cast<size_t>(width));
  return 2 * history + 2 * log;
}

ConvState make_conv(Arena& arena, int rows, int width) {
  ConvState c;
  c.rows = rows, c.width = width;
  const auto history = static_cast<size_t>(rows) * static_cast<size_t>(width);
  c.base = arena.take<float>(history);
  c.next = arena.take<float>(history);
  for (float*& log : c.log) log = arena.take<float>(kMaxWindow * static_cast<size_t>(width));
  return c;
}

}  // namespace

RunningGeometry running_geometry(const ModelConfig& c) {
  RunningGeometry g;
  g.n_gdn = c.n_delta_net;
  g.k_heads = c.gdn_k_heads, g.v_heads = c.gdn_v_heads, g.k_dim = c.gdn_k_dim, g.v_dim = c.gdn_v_dim;
  g.conv_rows = c.n_delta_net > 0 ? c.gdn_conv_kernel - 1 : 0;
  g.conv_width = c.gdn_channels();
  if (c.has_ngrams) g.ple_rows = (c.ngram.conv_kernel - 1) * c.ngram.dilation(), g.ple_width = c.wide();
  return g;
}

size_t RunningGeometry::snapshot_bytes() const {
  const size_t conv = static_cast<size_t>(conv_rows) * static_cast<size_t>(conv_width);
  const size_t ple = static_cast<size_t>(ple_rows) * static_cast<size_t>(ple_width);
  return sizeof(float) * (static_cast<size_t>(n_gdn) * (state_values() + conv) + ple);
}

size_t RunningGeometry::total_bytes() const {
  const auto padded = [](size_t values) { return Arena::padded(sizeof(float) * values); };
  const size_t log = 2 * (padded(size_t{kMaxWindow} * v_heads) + padded(size_t{kMaxWindow} * k_heads * k_dim) +
                          padded(size_t{kMaxWindow} * v_heads * v_dim));
  const size_t layer = 2 * padded(state_values()) + log + conv_total(conv_rows, conv_width);
  return static_cast<size_t>(n_gdn) * layer + (ple_rows > 0 ? conv_total(ple_rows, ple_width) : 0);
}

Result<std::unique_ptr<RunningState>> RunningState::create(Memory& memory, const RunningGeometry& geometry) {
  ASSIGN_OR_RETURN(Buffer buffer, memory.allocate(geometry.total_bytes(), "recurrent state"));
  return std::unique_ptr<RunningState>(new RunningState(memory, geometry, std::move(buffer)));
}

RunningState::RunningState(Memory& memory, const RunningGeometry& g, Buffer buffer)
    : memory_(memory), geometry_(g), arena_(std::move(buffer)) {
  for (int i = 0; i < g.n_gdn; ++i) {
    GdnState s;
    s.base = arena_.take<float>(g.state_values());
    s.next = arena_.take<float>(g.state_values());
    for (float*& p : s.decay) p = arena_.take<float>(size_t{kMaxWindow} * g.v_heads);
    for (float*& p : s.key) p = arena_.take<float>(size_t{kMaxWindow} * g.k_heads * g.k_dim);
    for (float*& p : s.update) p = arena_.take<float>(size_t{kMaxWindow} * g.v_heads * g.v_dim);
    s.conv = make_conv(arena_, g.conv_rows, g.conv_width);
    gdn_.push_back(s);
  }
  if (g.ple_rows > 0) ple_ = make_conv(arena_, g.ple_rows, g.ple_width);
}

void RunningState::commit(RowRole role, int n, int n_keep) {
  CHECK(n_keep >= 0 && n_keep <= n, "keep {} of {}", n_keep, n);
  if (role == RowRole::generated) {
    log_current_ ^= 1;
    kept_rows_ = n_keep;
    return;
  }
  CHECK(n_keep == 0 || n_keep == n, "a prompt chunk of {} rows is kept whole or not at all, not {}", n, n_keep);
  kept_rows_ = 0;  // the step has applied them to base
  if (n_keep == 0) return;
  for (GdnState& s : gdn_) {
    std::swap(s.base, s.next);
    std::swap(s.conv.base, s.conv.next);
  }
  std::swap(ple_.base, ple_.next);
}

void RunningState::drop_kept(int n) {
  CHECK(n >= 0 && n <= kept_rows_, "drop {} of {} kept rows", n, kept_rows_);
  kept_rows_ -= n;
}

template <class Fn>
void RunningState::each_base(Fn&& fn) const {
  const size_t conv =
      sizeof(float) * static_cast<size_t>(geometry_.conv_rows) * static_cast<size_t>(geometry_.conv_width);
  for (const GdnState& s : gdn_) {
    fn(s.base, sizeof(float) * geometry_.state_values());
    fn(s.conv.base, conv);
  }
  fn(ple_.base, sizeof(float) * static_cast<size_t>(geometry_.ple_rows) * static_cast<size_t>(geometry_.ple_width));
}

void RunningState::copy_out(std::byte* to) const {
  CHECK(kept_rows_ == 0, "{} kept rows are not settled", kept_rows_);
  each_base([&](const float* from, size_t bytes) {
    if (bytes > 0) memory_.copy(to, from, bytes);
    to += bytes;
  });
}

void RunningState::copy_in(const std::byte* from) {
  each_base([&](float* to, size_t bytes) {
    if (bytes > 0) memory_.copy(to, from, bytes);
    from += bytes;
  });
  kept_rows_ = 0;
}

void RunningState::reset() {
  each_base([&](float* at, size_t bytes) {
    if (bytes > 0) memory_.zero(at, bytes);
  });
  kept_rows_ = 0;
}

}  // namespace strata
