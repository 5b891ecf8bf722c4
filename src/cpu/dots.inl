// The text of the integer dots (dots.h), compiled per instruction set after its vector type (vec_*.inl). Nothing here may
// call an inline function with external linkage, see kernels.inl.


namespace strata {
namespace {

// to[i * stride] = sum of a[i]
template <int n>
STRATA_INLINE void store_sums(const Floats* a, float* to, int64_t stride) {
  for (int i = 0; i < n; i += 4) {
    const Floats zero = splat_float(0);
    float sums[4];
    four_sums(a[i], i + 1 < n ? a[i + 1] : zero, i + 2 < n ? a[i + 2] : zero, i + 3 < n ? a[i + 3] : zero, sums);
    for (int k = 0; k < 4 && i + k < n; ++k) to[(i + k) * stride] = sums[k];
  }
}

// Where the 256 values of a block begin, copied with zeros behind if they reach beyond the memory.
template <class F>
constexpr size_t kSpanBytes = sizeof(typename F::Block) * (kActElems / F::Block::kElems);
template <class F>
constexpr size_t kReach = kSpanBytes<F> + 16;  // no format reads further

// Hardware follows a stream too late when a block takes as long as a few lines of memory.
constexpr int kAheadBytes = 3072;
template <class F>
STRATA_INLINE void prefetch(const uint8_t* at) {
  for (size_t i = 0; i < kSpanBytes<F>; i += 64) __builtin_prefetch(at + kAheadBytes + i);
}

template <class F>
STRATA_INLINE const uint8_t* readable(const uint8_t* at, const QuantRows& w, int64_t bytes, uint8_t* copy) {
  if (reinterpret_cast<const uint8_t*>(w.end) - at >= static_cast<int64_t>(kReach<F>)) return at;
  __builtin_memset(copy, 0, kReach<F>);
  __builtin_memcpy(copy, at, static_cast<size_t>(bytes));
  return copy;
}

STRATA_INLINE uint32_t tail_lanes(int64_t n) {
  return (1u << (n % kActElems / kActGroups)) - 1;
}

// Rows of 64 or 128 inputs fill a block by fours or twos: the inputs stand in it as often.
STRATA_INLINE int rows_of_block(int64_t n) {
  return n == 64 ? 4 : n == 128 ? 2 : 1;
}
// The sums of the rows of such a block, in the order in which four_sums would add them.
STRATA_INLINE void store_shared_sums(Floats sum, int rows, float* to) {
  alignas(64) float lane[kActGroups];
  store_floats(lane, sum);
  for (int i = 0; i < rows; ++i) {
    const float* a = lane + i * (kActGroups / rows);
    const float* b = a + 4;
    to[i] = rows == 4 ? (a[0] + a[2]) + (a[1] + a[3]) : ((a[0] + b[0]) + (a[2] + b[2])) + ((a[1] + b[1]) + (a[3] + b[3]));
  }
}

// One block of a weight row times a block of each of X rows.
template <class F, int X>
STRATA_INLINE void add_block(const uint8_t* at, const ActBlock* const* x, int64_t i, uint32_t lanes, Floats* sum) {
  const Codes codes = F::codes(at);
  Floats scale = F::scale(at);
  if (lanes != 0) scale = keep_lanes(scale, lanes);
  for (int r = 0; r < X; ++r) {
    const ActBlock& block = x[r][i];
    sum[r] = times_plus(to_floats(dot<F::kOffset>(codes, block)) * scale, load_floats(block.scale), sum[r]);
  }
  if constexpr (F::kHasMin) {
    Floats min = F::min(at);
    if (lanes != 0) min = keep_lanes(min, lanes);
    for (int r = 0; r < X; ++r) sum[r] = times_plus(min, load_floats(x[r][i].sum), sum[r]);
  }
}

// One weight row times X rows.
template <class F, int X>
STRATA_INLINE void dot_row(const QuantRows& w, int j, const ActBlock* const* x, Floats* sum) {
  const int64_t whole = w.n / kActElems;
  const auto* at = reinterpret_cast<const uint8_t*>(w.w) + static_cast<size_t>(j) * w.row_bytes;
  uint8_t copy[kReach<F>];
  for (int r = 0; r < X; ++r) sum[r] = splat_float(0);
  for (int64_t i = 0; i < whole; ++i, at += kSpanBytes<F>) {
    prefetch<F>(at);
    add_block<F, X>(readable<F>(at, w, kSpanBytes<F>, copy), x, i, 0, sum);
  }
  if (const uint32_t lanes = tail_lanes(w.n); lanes != 0) {
    const int64_t rest = w.n % kActElems / F::Block::kElems * static_cast<int64_t>(sizeof(typename F::Block));
    add_block<F, X>(readable<F>(at, w, rest, copy), x, whole, lanes, sum);
  }
}

// As many whole blocks of narrow rows as there are; returns the rows that were done.
template <class F, int X>
STRATA_INLINE int dot_shared(const QuantRows& w, const ActBlock* const* x, float* out, int64_t out_stride) {
  const int rows = rows_of_block(w.n);
  if (rows == 1) return 0;
  const auto* at = reinterpret_cast<const uint8_t*>(w.w);
  uint8_t copy[kReach<F>];
  int j = 0;
  for (; j + rows <= w.n_w; j += rows, at += kSpanBytes<F>) {
    Floats sum[X];
    for (int r = 0; r < X; ++r) sum[r] = splat_float(0);
    prefetch<F>(at);
    add_block<F, X>(readable<F>(at, w, kSpanBytes<F>, copy), x, 0, 0, sum);
    for (int r = 0; r < X; ++r) store_shared_sums(sum[r], rows, out + r * out_stride + j);
  }
  return j;
}

template <class F, int X>
void dot_few(const QuantRows& w, const ActBlock* const* x, float* out, int64_t out_stride) {
  constexpr int kRows = X == 1 ? 4 : 1;  // sums are cheaper by fours
  int j = dot_shared<F, X>(w, x, out, out_stride);
  for (; j + kRows <= w.n_w; j += kRows) {
    Floats sum[kRows][X];
    for (int k = 0; k < kRows; ++k) dot_row<F, X>(w, j + k, x, sum[k]);
    store_sums<kRows * X>(sum[0], out + j, X == 1 ? 1 : out_stride);
  }
  for (; j < w.n_w; ++j) {
    Floats sum[X];
    dot_row<F, X>(w, j, x, sum);
    store_sums<X>(sum, out + j, out_stride);
  }
}

// Sanitizers make compiling these slow, and look for nothing in four rows that they would not find in one.
#if defined(STRATA_SANITIZED)
constexpr int kMostTogether = 1;
#else
constexpr int kMostTogether = kRowsTogether;
#endif

template <class F>
void dot_rows(const QuantRows& w, const ActBlock* const* x, int n_x, float* out, int64_t out_stride) {
  int r = 0;
  if constexpr (kMostTogether > 1) {
    for (; r + kMostTogether <= n_x; r += kMostTogether)
      dot_few<F, kMostTogether>(w, x + r, out + r * out_stride, out_stride);
    for (; r + 2 <= n_x; r += 2) dot_few<F, 2>(w, x + r, out + r * out_stride, out_stride);
  }
  for (; r < n_x; ++r) dot_few<F, 1>(w, x + r, out + r * out_stride, out_stride);
}

// --- many rows: a tile of weights is decoded once -------------------------------------------------------------------

template <class F>
constexpr int kDecodedOffset = F::kHasMin ? 0 : kTileOffset(F::kOffset);

template <class F>
STRATA_INLINE void decode_block(const uint8_t* at, uint32_t lanes, DecodedBlock* to) {
  store_codes(F::codes(at), to->codes, kDecodedOffset<F> - F::kOffset);
  const Floats scale = F::scale(at), min = F::min(at);
  store_floats(to->scale, lanes != 0 ? keep_lanes(scale, lanes) : scale);
  store_floats(to->min, lanes != 0 ? keep_lanes(min, lanes) : min);
}

// Blocks that rows share, if any, come before the rest.
template <class F>
void decode_rows(const QuantRows& w, DecodedBlock* to) {
  const int64_t whole = w.n / kActElems;
  const uint32_t lanes = tail_lanes(w.n);
  const int shared = rows_of_block(w.n);
  uint8_t copy[kReach<F>];
  const auto* at = reinterpret_cast<const uint8_t*>(w.w);
  int j = 0;
  for (; shared > 1 && j + shared <= w.n_w; j += shared, at += kSpanBytes<F>) {
    decode_block<F>(readable<F>(at, w, kSpanBytes<F>, copy), 0, to++);
  }
  for (; j < w.n_w; ++j) {
    at = reinterpret_cast<const uint8_t*>(w.w) + static_cast<size_t>(j) * w.row_bytes;
    for (int64_t i = 0; i < whole; ++i, at += kSpanBytes<F>) {
      decode_block<F>(readable<F>(at, w, kSpanBytes<F>, copy), 0, to++);
    }
    if (lanes != 0) {
      const int64_t rest = w.n % kActElems / F::Block::kElems * static_cast<int64_t>(sizeof(typename F::Block));
      decode_block<F>(readable<F>(at, w, rest, copy), lanes, to++);
    }
  }
}

template <int kOffset, bool kHasMin, int W, int X>
STRATA_INLINE void dot_decoded_tile(const DecodedBlock* w, const ActBlock* const* x, int64_t n_blocks,
                                    Floats (*sum)[X]) {
  for (int j = 0; j < W; ++j) {
    for (int r = 0; r < X; ++r) sum[j][r] = splat_float(0);
  }
  for (int64_t i = 0; i < n_blocks; ++i) {
    // All dots advance together: one after the other, each would wait for its own last step.
    for (int h = 0; h < kParts16; ++h) {
      DotPart<kOffset> part[W][X];
      for (int j = 0; j < W; ++j) {
        for (int r = 0; r < X; ++r) dot_start(part[j][r], x[r][i], h);
      }
      for (int v = 0; v < 4; ++v) {
        for (int j = 0; j < W; ++j) {
          const CodePart codes = load_part_of(w[j * n_blocks + i].codes, v, h);
          for (int r = 0; r < X; ++r) dot_step(part[j][r], codes, x[r][i], v, h);
        }
      }
      for (int j = 0; j < W; ++j) {
        for (int r = 0; r < X; ++r) add_dot(sum[j][r], part[j][r], x[r][i], w[j * n_blocks + i].scale, h);
      }
    }
    if constexpr (kHasMin) {
      for (int j = 0; j < W; ++j) {
        const Floats min = load_floats(w[j * n_blocks + i].min);
        for (int r = 0; r < X; ++r) sum[j][r] = times_plus(min, load_floats(x[r][i].sum), sum[j][r]);
      }
    }
  }
}
template <int kOffset, bool kHasMin, int W, int X>
STRATA_INLINE void dot_decoded_tile(const DecodedBlock* w, const ActBlock* const* x, int64_t n_blocks, float* out,
                                    int64_t out_stride) {
  Floats sum[W][X];
  dot_decoded_tile<kOffset, kHasMin, W, X>(w, x, n_blocks, sum);
  for (int j = 0; j < W; ++j) store_sums<X>(sum[j], out + j, out_stride);
}

template <int kOffset, bool kHasMin, int X>
STRATA_INLINE void dot_decoded_rows(const DecodedBlock* w, int n_w, const ActBlock* const* x, int64_t n_blocks,
                                    float* out, int64_t out_stride) {
  int j = 0;
  for (; j + kTileW <= n_w; j += kTileW)
    dot_decoded_tile<kOffset, kHasMin, kTileW, X>(w + j * n_blocks, x, n_blocks, out + j, out_stride);
  for (; j < n_w; ++j) dot_decoded_tile<kOffset, kHasMin, 1, X>(w + j * n_blocks, x, n_blocks, out + j, out_stride);
}

// Blocks that `shared` rows share.
template <int kOffset, bool kHasMin, int X>
STRATA_INLINE void dot_decoded_shared(const DecodedBlock* w, int n_blocks, int shared, const ActBlock* const* x,
                                      float* out, int64_t out_stride) {
  for (int i = 0; i < n_blocks; ++i) {
    Floats sum[1][X];
    dot_decoded_tile<kOffset, kHasMin, 1, X>(w + i, x, 1, sum);
    for (int r = 0; r < X; ++r) store_shared_sums(sum[0][r], shared, out + r * out_stride + i * shared);
  }
}

template <int kOffset, bool kHasMin>
void dot_decoded(const DecodedBlock* w, int n_w, const ActBlock* const* x, int n_x, int64_t n, float* out,
                 int64_t out_stride) {
  if (const int shared = rows_of_block(n); shared > 1) {
    const int n_blocks = n_w / shared;
    int r = 0;
    for (; r + kTileX <= n_x; r += kTileX)
      dot_decoded_shared<kOffset, kHasMin, kTileX>(w, n_blocks, shared, x + r, out + r * out_stride, out_stride);
    for (; r < n_x; ++r)
      dot_decoded_shared<kOffset, kHasMin, 1>(w, n_blocks, shared, x + r, out + r * out_stride, out_stride);
    w += n_blocks;
    n_w -= n_blocks * shared;
    out += n_blocks * shared;
  }
  const int64_t n_blocks = (n + kActElems - 1) / kActElems;
  int r = 0;
  for (; r + kTileX <= n_x; r += kTileX)
    dot_decoded_rows<kOffset, kHasMin, kTileX>(w, n_w, x + r, n_blocks, out + r * out_stride, out_stride);
  for (; r < n_x; ++r) dot_decoded_rows<kOffset, kHasMin, 1>(w, n_w, x + r, n_blocks, out + r * out_stride, out_stride);
}

// --- activations ----------------------------------------------------------------------------------------------------

#ifndef STRATA_OWN_QUANTISE
// One block; its first `groups` groups stand in it again and again.
STRATA_INLINE void quantise_block(const float* x, int groups, bool spread, ActBlock* to) {
  alignas(64) int8_t codes[kActElems] = {};
  for (int g = 0; g < groups; ++g) quantise_group(x + 16 * g, g, codes, to);
  for (int g = groups; g < kActGroups; g += groups) {
    __builtin_memcpy(codes + 16 * g, codes, static_cast<size_t>(16 * groups));
    __builtin_memcpy(to->scale + g, to->scale, static_cast<size_t>(groups) * sizeof(float));
    __builtin_memcpy(to->start + g, to->start, static_cast<size_t>(groups) * sizeof(int32_t));
    __builtin_memcpy(to->sum + g, to->sum, static_cast<size_t>(groups) * sizeof(float));
  }
  arrange(codes, spread, to->codes);
}
#endif

void quantise_rows(const float* x, int64_t n, ActOrder order, ActBlock* to) {
  for (int64_t i = 0; i < n; i += kActElems, ++to) {
    const int64_t count = n - i < kActElems ? n - i : kActElems;
    const float* from = x + i;
    const int shared = rows_of_block(n);
    alignas(64) float padded[kActElems];
    if (count < kActElems && shared == 1) {
      __builtin_memset(padded, 0, sizeof padded);
      __builtin_memcpy(padded, from, static_cast<size_t>(count) * sizeof(float));
      from = padded;
    }
    quantise_block(from, kActGroups / shared, order == ActOrder::spread, to);
  }
}

template <class F>
constexpr DotKernel dot_kernel() {
  return {F::Block::kType,
          F::kOrder,
          F::kHasMin,
          dot_rows<F>,
          decode_rows<F>,
          dot_decoded<kDecodedOffset<F>, F::kHasMin>};
}

constexpr DotKernel kDotKernelList[] = {
    dot_kernel<FormatQ4_0>(),    dot_kernel<FormatQ4_1>(),   dot_kernel<FormatQ5_0>(),  dot_kernel<FormatQ5_1>(),
    dot_kernel<FormatQ8_0>(),    dot_kernel<FormatQ2_0>(),   dot_kernel<FormatIQ4_NL>(), dot_kernel<FormatMXFP4>(),
    dot_kernel<FormatNVFP4>(),   dot_kernel<FormatQ2_K>(),   dot_kernel<FormatQ3_K>(),  dot_kernel<FormatQ4_K>(),
    dot_kernel<FormatQ5_K>(),    dot_kernel<FormatQ6_K>(),   dot_kernel<FormatIQ4_XS>(), dot_kernel<FormatIQ2_XXS>(),
    dot_kernel<FormatIQ2_XS>(),  dot_kernel<FormatIQ2_S>(),  dot_kernel<FormatIQ1_S>(), dot_kernel<FormatIQ1_M>(),
    dot_kernel<FormatIQ3_XXS>(), dot_kernel<FormatIQ3_S>(),
};
constexpr DotKernels dot_kernels() {
  DotKernels all{quantise_rows, kDotKernelList, sizeof kDotKernelList / sizeof kDotKernelList[0], {}};
  int8_t at = 0;
  for (const DotKernel& kernel : kDotKernelList) all.number[static_cast<uint32_t>(kernel.type)] = ++at;
  return all;
}
constexpr DotKernels kDotKernels = dot_kernels();

}  // namespace
}  // namespace strata
