// The table of the kernels of one instruction set, after their text and its vector type.

#include "cpu/blocks.inl"
#include "cpu/dots.inl"
#include "cpu/mixers.inl"
#include "cpu/rates.inl"

namespace strata {
namespace {

constexpr Kernels kKernels = {
    STRATA_ISA, dot_tile, dot_tile_f16, dot_tile_bf16, rms_norm,  unit_norm,      add_scaled,   exp_sum,       silu,
    silu_times, gate,     sigmoid,      add_gated,     &kMixerKernels, &kDotKernels, &kRateKernels,
};

}  // namespace
}  // namespace strata
