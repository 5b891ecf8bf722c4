#include "cpu/scratch.h"

#include <algorithm>

#include "cpu/matmul.h"

namespace strata {

LinearScratch LinearScratch::carve(Carver& shared, int rows) {
  return {shared.take<const float*>(rows)};
}

HyperScratch HyperScratch::carve(Carver& shared, int rows, int streams, int d_model, int rank) {
  return {shared.matrix(rows, int64_t{streams} * d_model), shared.matrix(rows, rank), shared.take<const float*>(rows),
          shared.take<const float*>(rows)};
}

HyperTask HyperTask::carve(Carver& own, int streams, int rank) {
  return {carve_tile(own, rank), own.take<float>(int64_t{kRows} * streams * kChannels)};
}

GdnTask GdnTask::carve(Carver& own, int k_dim, int v_dim) {
  const int64_t columns = whole_strips(v_dim);
  return {own.take<float>(int64_t{kRows} * 2 * k_dim),
          own.take<float>(kRows),
          own.take<float>(kRows * columns),
          own.take<float>(kRows * columns),
          own.take<float>(kRows * columns),
          own.take<float>(kRows),
          own.take<float>(kRows),
          own.take<float>(int64_t{k_dim} * kDeltaStrip),
          own.take<float>(int64_t{k_dim} * kDeltaStrip),
          own.take<float>(kMaxWindow * kDeltaStrip)};
}

AttentionScratch AttentionScratch::carve(Carver& shared, int rows) {
  return {shared.take<const Segment*>(rows)};
}

PrepareTask PrepareTask::carve(Carver& own, int head_dim) {
  return {own.take<float>(head_dim), own.take<float>(head_dim), own.take<float>(head_dim)};
}

AttendTask AttendTask::carve(Carver& own, int heads) {
  return {own.take<const std::byte*>(2 * kPositions),
          own.take<const std::byte*>(2 * kPositions),
          own.take<float>(int64_t{kPositions} * heads),
          own.take<float>(heads),
          own.take<float>(heads),
          own.take<float>(heads)};
}

SelectTask SelectTask::carve(Carver& own, int64_t blocks) {
  return {own.take<float>(kRows * blocks), own.take<int32_t>(blocks + 1), own.take<float>(blocks)};
}

NgramScratch NgramScratch::carve(Carver& shared, int rows, int width, int streams, int d_model) {
  return {shared.matrix(rows, width), shared.matrix(rows, int64_t{streams} * d_model), shared.matrix(rows, d_model),
          shared.matrix(rows, streams), shared.take<const float*>(rows)};
}

NgramTask NgramTask::carve(Carver& own, int streams, int d_model) {
  return {own.take<float>(d_model), own.take<float>(d_model), own.take<float>(int64_t{streams} * d_model)};
}

RouteScratch RouteScratch::carve(Carver& shared, int rows, int n_experts) {
  return {shared.matrix(rows, n_experts), shared.take<const float*>(rows)};
}

ExpertScratch ExpertScratch::carve(Carver& shared, int rows, int n_experts, int n_used, int width, int d_model) {
  const int64_t uses = int64_t{rows} * n_used, slots = uses + rows;
  ExpertScratch s{shared.take<int32_t>(n_experts + 1),
                  shared.take<int32_t>(n_experts),
                  shared.take<int32_t>(uses),
                  shared.take<const float*>(slots),
                  shared.matrix(slots, width),
                  shared.take<const float*>(slots),
                  shared.take<float>(rows),
                  ActRoom::carve(shared, rows, d_model),
                  ActRoom::carve(shared, uses, width),
                  ActRoom::carve(shared, rows, width),
                  {}};
  for (const ActBlock**& blocks : s.input_blocks) blocks = shared.take<const ActBlock*>(slots);
  return s;
}

ExpertUpTask ExpertUpTask::carve(Carver& own, int d_model) {
  return {carve_tile(own, d_model), own.take<float>(kRows * kMaxHidden)};
}

ExpertDownTask ExpertDownTask::carve(Carver& own, int rows, int n_used, int width) {
  const int64_t slots = int64_t{rows} * n_used + rows;
  return {carve_tile(own, width), own.take<float>(std::max<int64_t>(slots * kOutputs, kFewUses * 2 * kMaxOutputs))};
}

namespace {

template <class Carve>
size_t bytes_of(Carve carve) {
  Carver counter;
  carve(counter);
  return counter.used();
}

int widest_input(const OpsShapes& s) {
  return std::max(
      {s.max_linear_inputs, s.streams * s.d_model, s.d_model, s.hyper_rank, s.ngram_width, s.max_expert_width});
}

}  // namespace

size_t shared_scratch_bytes(const OpsShapes& s) {
  return std::max({
      bytes_of([&](Carver& c) {
        LinearScratch::carve(c, s.max_rows);
        ActRoom::carve(c, s.max_rows, widest_input(s));
      }),
      bytes_of([&](Carver& c) {
        HyperScratch::carve(c, s.max_rows, s.streams, s.d_model, s.hyper_rank);
        ActRoom::carve(c, s.max_rows, s.streams * s.d_model);
        ActRoom::carve(c, s.max_rows, s.hyper_rank);
      }),
      bytes_of([&](Carver& c) { AttentionScratch::carve(c, s.max_rows); }),
      bytes_of([&](Carver& c) {
        NgramScratch::carve(c, s.max_rows, s.ngram_width, s.streams, s.d_model);
        ActRoom::carve(c, s.max_rows, s.ngram_width);
      }),
      bytes_of([&](Carver& c) {
        RouteScratch::carve(c, s.max_rows, s.max_experts);
        ActRoom::carve(c, s.max_rows, s.d_model);
      }),
      bytes_of([&](Carver& c) {
        ExpertScratch::carve(c, s.max_rows, s.max_experts, s.max_experts_used, s.max_expert_width, s.d_model);
      }),
  });
}

size_t thread_scratch_bytes(const OpsShapes& s) {
  const int64_t blocks = s.block_tokens > 0 ? s.max_context / s.block_tokens : 0;
  return std::max({
      bytes_of([&](Carver& c) { carve_tile(c, widest_input(s)); }),
      bytes_of([&](Carver& c) { HyperTask::carve(c, s.streams, s.hyper_rank); }),
      bytes_of([&](Carver& c) {
        // Channels are two key widths and a value width, at the least.
        GdnTask::carve(c, s.max_gdn_channels / 2, s.max_gdn_channels);
      }),
      bytes_of([&](Carver& c) { PrepareTask::carve(c, std::max(s.max_head_dim, s.max_index_dim)); }),
      bytes_of([&](Carver& c) { AttendTask::carve(c, s.max_heads); }),
      bytes_of([&](Carver& c) { SelectTask::carve(c, blocks); }),
      bytes_of([&](Carver& c) { NgramTask::carve(c, s.streams, s.d_model); }),
      bytes_of([&](Carver& c) { ExpertUpTask::carve(c, s.d_model); }),
      bytes_of([&](Carver& c) { ExpertDownTask::carve(c, s.max_rows, s.max_experts_used, s.max_expert_width); }),
  });
}

}  // namespace strata
