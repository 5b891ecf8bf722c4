// The inner loops of the CPU operations, compiled once per instruction set from one text (kernels.inl). Sums over many
// terms run in 16 lanes in a fixed order, whatever the width of a register. Sets with fused products give the same
// bits; the generic one rounds the products of weights apart (docs/exactness.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace strata {

struct DotKernels;
struct MixerKernels;
struct RateKernels;

struct Kernels {
  const char* isa;

  // out[r * out_stride + j] = x[r] . w_j with w_j = w + j * w_stride, over n values.
  void (*dot_tile)(const float* w, int64_t w_stride, int n_w, const float* const* x, int n_x, int64_t n, float* out,
                   int64_t out_stride);
  // The same with weights in half and in bfloat16; any alignment, as above.
  void (*dot_tile_f16)(const uint16_t* w, int64_t w_stride, int n_w, const float* const* x, int n_x, int64_t n,
                       float* out, int64_t out_stride);
  void (*dot_tile_bf16)(const uint16_t* w, int64_t w_stride, int n_w, const float* const* x, int n_x, int64_t n,
                        float* out, int64_t out_stride);
  // out = x / sqrt(mean(x^2) + eps) * weight; out may be x.
  void (*rms_norm)(const float* x, const float* weight, int n, float eps, float* out);
  // x = x / sqrt(sum(x^2) + eps) * scale
  void (*unit_norm)(float* x, int n, float eps, float scale);
  // y += a * x
  void (*add_scaled)(float* y, const float* x, float a, int n);
  // x = e^(x - shift); returns the sum
  float (*exp_sum)(float* x, float shift, int n);
  // x = silu(x * scale)
  void (*silu)(float* x, float scale, int n);
  // x = silu(x) * y
  void (*silu_times)(float* x, const float* y, int n);
  // x *= sigmoid(gate)
  void (*gate)(float* x, const float* gate, int n);
  // x = scale * sigmoid(x * in_scale)
  void (*sigmoid)(float* x, float in_scale, float scale, int n);
  // y += sigmoid(m) * x
  void (*add_gated)(float* y, const float* m, const float* x, int n);
  const MixerKernels* mixers;
  const DotKernels* dots;
  const RateKernels* rates;
};

// Those that this build has and this processor can run, the widest first; the last one runs everywhere.
std::span<const Kernels* const> available_kernels();
// By name: "avx512", "avxvnni", "avx2", "generic"; null when it is not available. "auto" is the first of the list.
const Kernels* find_kernels(std::string_view isa);

}  // namespace strata
