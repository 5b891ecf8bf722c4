// How 256 weights of each block format become codes, scales and offsets for the integer dots. A code is its value plus
// kOffset, or, where kHasMin, the value itself with an offset per group. A format is given the first of its blocks that
// hold the 256 values; all of them can be read. Vector p of four holds group 4q + p in lane q until it is turned.
// Part of dots.inl.

namespace strata {
namespace {

template <class T>
STRATA_INLINE T word_at(const uint8_t* from) {
  T word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}

// Pointers, because the operators of std::array are inline functions.
constexpr const uint64_t* kIq1s = kIq1sOffsetGrid.data();
constexpr const uint64_t* kIq2xxs = kIq2xxsOffsetGrid.data();
constexpr const uint64_t* kIq2xs = kIq2xsOffsetGrid.data();
constexpr const uint64_t* kIq2s = kIq2sOffsetGrid.data();
constexpr const uint32_t* kIq3xxs = kIq3xxsOffsetGrid.data();
constexpr const uint32_t* kIq3s = kIq3sOffsetGrid.data();
constexpr const int8_t* kIq4nl = kIq4nlValues.data();
constexpr const int8_t* kFp4 = kFp4DoubledValues.data();

// What most formats have in common.
template <class B>
struct Format {
  using Block = B;
  static constexpr ActOrder kOrder = ActOrder::quads;
  static constexpr bool kHasMin = false;
  static STRATA_INLINE Floats min(const uint8_t*) { return splat_float(0); }
};

// The fp16 at byte `at` of each of 8 blocks.
template <class B, size_t at>
STRATA_INLINE Floats block_halves(const uint8_t* b) {
  const auto four = [](const uint8_t* p) __attribute__((always_inline)) {
    return word_at<uint16_t>(p) | static_cast<uint64_t>(word_at<uint16_t>(p + sizeof(B))) << 16 |
           static_cast<uint64_t>(word_at<uint16_t>(p + 2 * sizeof(B))) << 32 |
           static_cast<uint64_t>(word_at<uint16_t>(p + 3 * sizeof(B))) << 48;
  };
  return doubled_halves(four(b + at), four(b + at + 4 * sizeof(B)));
}

// 16 bytes of every block of 32: low halves are one group, high halves the next.
template <class B, size_t at>
STRATA_INLINE Bytes packed_even(const uint8_t* b) {
  constexpr size_t n = sizeof(B);
  return four_lanes(b + at, b + at + 2 * n, b + at + 4 * n, b + at + 6 * n);
}
template <class B, size_t at>
STRATA_INLINE Bytes packed_odd(const uint8_t* b) {
  return packed_even<B, at + sizeof(B)>(b);
}
STRATA_INLINE Bytes low_half(Bytes v) {
  return v & splat_byte(15);
}
STRATA_INLINE Bytes high_half(Bytes v) {
  return shift_right<4>(v) & splat_byte(15);
}
STRATA_INLINE Codes turn_halves(Bytes even, Bytes odd) {
  return turn(low_half(even), high_half(even), low_half(odd), high_half(odd));
}
STRATA_INLINE Codes turn_table_halves(Bytes even, Bytes odd, const int8_t* values, int offset) {
  const Bytes table = table_of_16(values, offset);
  return turn(look_up(table, low_half(even)), look_up(table, high_half(even)), look_up(table, low_half(odd)),
              look_up(table, high_half(odd)));
}

// --- blocks of 32 and 64 --------------------------------------------------------------------------------------------

struct FormatQ4_0 : Format<BlockQ4_0> {
  static constexpr int kOffset = 8;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    return turn_halves(packed_even<Block, offsetof(Block, qs)>(b), packed_odd<Block, offsetof(Block, qs)>(b));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) { return block_halves<Block, offsetof(Block, d)>(b); }
};

struct FormatQ4_1 : Format<BlockQ4_1> {
  static constexpr int kOffset = 0;
  static constexpr bool kHasMin = true;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    return turn_halves(packed_even<Block, offsetof(Block, qs)>(b), packed_odd<Block, offsetof(Block, qs)>(b));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) { return block_halves<Block, offsetof(Block, d)>(b); }
  static STRATA_INLINE Floats min(const uint8_t* b) { return block_halves<Block, offsetof(Block, m)>(b); }
};

// Fifth bits: of block 2q the low (high) 16 bits for p = 0 (1), of block 2q + 1 for p = 2 (3).
template <class B, int p>
STRATA_INLINE Bytes fifth_bits(const uint8_t* b) {
  const uint8_t* at = b + offsetof(B, qh) + (p / 2) * sizeof(B) + 2 * (p % 2);
  return where_bits(word_at<uint16_t>(at), word_at<uint16_t>(at + 2 * sizeof(B)), word_at<uint16_t>(at + 4 * sizeof(B)),
                    word_at<uint16_t>(at + 6 * sizeof(B)), 16);
}
template <class B>
STRATA_INLINE Codes five_bit_codes(const uint8_t* b) {
  const Bytes even = packed_even<B, offsetof(B, qs)>(b), odd = packed_odd<B, offsetof(B, qs)>(b);
  return turn(low_half(even) | fifth_bits<B, 0>(b), high_half(even) | fifth_bits<B, 1>(b),
              low_half(odd) | fifth_bits<B, 2>(b), high_half(odd) | fifth_bits<B, 3>(b));
}

struct FormatQ5_0 : Format<BlockQ5_0> {
  static constexpr int kOffset = 16;
  static STRATA_INLINE Codes codes(const uint8_t* b) { return five_bit_codes<Block>(b); }
  static STRATA_INLINE Floats scale(const uint8_t* b) { return block_halves<Block, offsetof(Block, d)>(b); }
};

struct FormatQ5_1 : Format<BlockQ5_1> {
  static constexpr int kOffset = 0;
  static constexpr bool kHasMin = true;
  static STRATA_INLINE Codes codes(const uint8_t* b) { return five_bit_codes<Block>(b); }
  static STRATA_INLINE Floats scale(const uint8_t* b) { return block_halves<Block, offsetof(Block, d)>(b); }
  static STRATA_INLINE Floats min(const uint8_t* b) { return block_halves<Block, offsetof(Block, m)>(b); }
};

struct FormatQ8_0 : Format<BlockQ8_0> {
  static constexpr int kOffset = 128;
  template <int p>
  static STRATA_INLINE Bytes groups(const uint8_t* b) {
    constexpr size_t n = sizeof(Block);
    const uint8_t* at = b + offsetof(Block, qs) + (p / 2) * n + 16 * (p % 2);
    return four_lanes(at, at + 2 * n, at + 4 * n, at + 6 * n) ^ splat_byte(128);
  }
  static STRATA_INLINE Codes codes(const uint8_t* b) { return turn(groups<0>(b), groups<1>(b), groups<2>(b), groups<3>(b)); }
  static STRATA_INLINE Floats scale(const uint8_t* b) { return block_halves<Block, offsetof(Block, d)>(b); }
};

struct FormatQ2_0 : Format<BlockQ2_0> {
  static constexpr int kOffset = 1;
  static constexpr ActOrder kOrder = ActOrder::spread;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    const Bytes packed = load_dwords(b + offsetof(Block, qs), sizeof(Block)), three = splat_byte(3);
    return as_codes(packed & three, shift_right<2>(packed) & three, shift_right<4>(packed) & three,
                    shift_right<6>(packed) & three);
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    constexpr size_t n = sizeof(Block), at = offsetof(Block, d);
    return four_times_halves(word_at<uint16_t>(b + at) | static_cast<uint64_t>(word_at<uint16_t>(b + at + n)) << 16 |
                             static_cast<uint64_t>(word_at<uint16_t>(b + at + 2 * n)) << 32 |
                             static_cast<uint64_t>(word_at<uint16_t>(b + at + 3 * n)) << 48);
  }
};

struct FormatIQ4_NL : Format<BlockIQ4_NL> {
  static constexpr int kOffset = 128;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    return turn_table_halves(packed_even<Block, offsetof(Block, qs)>(b), packed_odd<Block, offsetof(Block, qs)>(b),
                             kIq4nl, kOffset);
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) { return block_halves<Block, offsetof(Block, d)>(b); }
};

struct FormatMXFP4 : Format<BlockMXFP4> {
  static constexpr int kOffset = 16;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    return turn_table_halves(packed_even<Block, offsetof(Block, qs)>(b), packed_odd<Block, offsetof(Block, qs)>(b), kFp4,
                             kOffset);
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    constexpr size_t n = sizeof(Block);
    uint64_t eight = 0;
    for (size_t i = 0; i < 8; ++i) eight |= static_cast<uint64_t>(b[i * n]) << (8 * i);
    return doubled_e8m0(eight);
  }
};

struct FormatNVFP4 : Format<BlockNVFP4> {
  static constexpr int kOffset = 16;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    const Bytes table = table_of_16(kFp4, kOffset), fifteen = splat_byte(15);
    const Bytes first = load_dwords(b + offsetof(Block, qs), sizeof(Block));
    const Bytes second = load_dwords(b + offsetof(Block, qs) + 16, sizeof(Block));
    return turn(look_up(table, halves_of_first(first) & fifteen), look_up(table, halves_of_second(first) & fifteen),
                look_up(table, halves_of_first(second) & fifteen), look_up(table, halves_of_second(second) & fifteen));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    constexpr size_t n = sizeof(Block), at = offsetof(Block, scales);
    const auto pair = [](const uint8_t* p) __attribute__((always_inline)) {
      return word_at<uint32_t>(p) | static_cast<uint64_t>(word_at<uint32_t>(p + n)) << 32;
    };
    return halved_ue4m3(pair(b + at), pair(b + at + 2 * n));
  }
};

// --- blocks of 256 with small integer scales ------------------------------------------------------------------------

// Two bits per value: 16-byte pieces (half, s); the group 4q + p of vector p is at bits 4 (q % 2) + 2 (p / 2) of piece
// (q / 2, p % 2).
STRATA_INLINE Bytes two_bits_twins(const uint8_t* qs, int s) {
  return twin_lanes(qs + 16 * s, qs + 32 + 16 * s);
}
STRATA_INLINE Codes turn_two_bits(const uint8_t* qs) {
  const Bytes even = two_bits_twins(qs, 0), odd = two_bits_twins(qs, 1), three = splat_byte(3);
  return turn(shift_lanes<0, 4, 0, 4>(even) & three, shift_lanes<0, 4, 0, 4>(odd) & three,
              shift_lanes<2, 6, 2, 6>(even) & three, shift_lanes<2, 6, 2, 6>(odd) & three);
}

struct FormatQ2_K : Format<BlockQ2_K> {
  static constexpr int kOffset = 0;
  static constexpr bool kHasMin = true;
  static STRATA_INLINE Codes codes(const uint8_t* b) { return turn_two_bits(b + offsetof(Block, qs)); }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    return splat_float(half_at(b + offsetof(Block, d))) * floats_of_low_halves(b + offsetof(Block, scales));
  }
  static STRATA_INLINE Floats min(const uint8_t* b) {
    return splat_float(-half_at(b + offsetof(Block, dmin))) * floats_of_high_halves(b + offsetof(Block, scales));
  }
};

// One bit per value: bit 2q + p / 2 of 16-byte piece p % 2, brought to bit `to`.
template <int p, int to>
STRATA_INLINE Bytes high_bits(const uint8_t* bytes) {
  const Bytes bits = shift_lanes<p / 2, 2 + p / 2, 4 + p / 2, 6 + p / 2>(same_lanes(bytes + 16 * (p % 2)));
  return shift_left<to>(bits & splat_byte(1));
}

struct FormatQ3_K : Format<BlockQ3_K> {
  static constexpr int kOffset = 4;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    const uint8_t *qs = b + offsetof(Block, qs), *high = b + offsetof(Block, hmask);
    const Bytes even = two_bits_twins(qs, 0), odd = two_bits_twins(qs, 1), three = splat_byte(3);
    return turn((shift_lanes<0, 4, 0, 4>(even) & three) | high_bits<0, 2>(high),
                (shift_lanes<0, 4, 0, 4>(odd) & three) | high_bits<1, 2>(high),
                (shift_lanes<2, 6, 2, 6>(even) & three) | high_bits<2, 2>(high),
                (shift_lanes<2, 6, 2, 6>(odd) & three) | high_bits<3, 2>(high));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    // Sixteen 6-bit numbers: the low halves in 8 bytes, the high two bits in 4.
    const uint8_t* s = b + offsetof(Block, scales);
    const auto low = word_at<uint64_t>(s);
    const auto high = word_at<uint32_t>(s + 8);
    const auto pair = [](uint32_t a, uint32_t c) __attribute__((always_inline)) {
      return (a & 0x03030303u) << 4 | static_cast<uint64_t>((c & 0x03030303u) << 4) << 32;
    };
    const uint64_t first = (low & 0x0f0f0f0f0f0f0f0fu) | pair(high, high >> 2);
    const uint64_t second = (low >> 4 & 0x0f0f0f0f0f0f0f0fu) | pair(high >> 4, high >> 6);
    return splat_float(half_at(b + offsetof(Block, d))) * (floats_of_bytes(first, second) - splat_float(32));
  }
};

// Q4_K and Q5_K: eight 6-bit scales and offsets in 12 bytes, as scale_min_of_group.
STRATA_INLINE uint64_t k_scales(const uint8_t* s) {
  const auto a = word_at<uint32_t>(s), c = word_at<uint32_t>(s + 8);
  return (a & 0x3f3f3f3fu) | static_cast<uint64_t>((c & 0x0f0f0f0fu) | (a >> 6 & 0x03030303u) << 4) << 32;
}
STRATA_INLINE uint64_t k_mins(const uint8_t* s) {
  const auto m = word_at<uint32_t>(s + 4), c = word_at<uint32_t>(s + 8);
  return (m & 0x3f3f3f3fu) | static_cast<uint64_t>((c >> 4 & 0x0f0f0f0fu) | (m >> 6 & 0x03030303u) << 4) << 32;
}
// Per 64 values 32 bytes: piece s of pair q holds groups 4q + s (low halves) and 4q + 2 + s (high halves).
STRATA_INLINE Bytes k_halves(const uint8_t* qs, int s) {
  return load_dwords(qs + 16 * s, 32);
}

struct FormatQ4_K : Format<BlockQ4_K> {
  static constexpr int kOffset = 0;
  static constexpr bool kHasMin = true;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    const Bytes even = k_halves(b + offsetof(Block, qs), 0), odd = k_halves(b + offsetof(Block, qs), 1);
    return turn(low_half(even), low_half(odd), high_half(even), high_half(odd));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    return splat_float(half_at(b + offsetof(Block, d))) * doubled_bytes(k_scales(b + offsetof(Block, scales)));
  }
  static STRATA_INLINE Floats min(const uint8_t* b) {
    return splat_float(-half_at(b + offsetof(Block, dmin))) * doubled_bytes(k_mins(b + offsetof(Block, scales)));
  }
};

struct FormatQ5_K : Format<BlockQ5_K> {
  static constexpr int kOffset = 0;
  static constexpr bool kHasMin = true;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    const Bytes even = k_halves(b + offsetof(Block, qs), 0), odd = k_halves(b + offsetof(Block, qs), 1);
    const uint8_t* high = b + offsetof(Block, qh);
    return turn(low_half(even) | high_bits<0, 4>(high), low_half(odd) | high_bits<1, 4>(high),
                high_half(even) | high_bits<2, 4>(high), high_half(odd) | high_bits<3, 4>(high));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    return splat_float(half_at(b + offsetof(Block, d))) * doubled_bytes(k_scales(b + offsetof(Block, scales)));
  }
  static STRATA_INLINE Floats min(const uint8_t* b) {
    return splat_float(-half_at(b + offsetof(Block, dmin))) * doubled_bytes(k_mins(b + offsetof(Block, scales)));
  }
};

struct FormatQ6_K : Format<BlockQ6_K> {
  static constexpr int kOffset = 32;
  // Low four bits: piece p of half q / 2, its low halves for even q.
  template <int p>
  static STRATA_INLINE Bytes groups(const uint8_t* b, Bytes high) {
    const uint8_t* low = b + offsetof(Block, ql) + 16 * p;
    constexpr int by = 2 * (p / 2);
    return (shift_lanes<0, 4, 0, 4>(twin_lanes(low, low + 64)) & splat_byte(15)) |
           shift_left<4>(shift_lanes<by, 4 + by, by, 4 + by>(high) & splat_byte(3));
  }
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    const Bytes even = two_bits_twins(b + offsetof(Block, qh), 0), odd = two_bits_twins(b + offsetof(Block, qh), 1);
    return turn(groups<0>(b, even), groups<1>(b, odd), groups<2>(b, even), groups<3>(b, odd));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    const uint8_t* s = b + offsetof(Block, scales);
    return splat_float(half_at(b + offsetof(Block, d))) *
           floats_of_bytes(word_at<uint64_t>(s), word_at<uint64_t>(s + 8));
  }
};

struct FormatIQ4_XS : Format<BlockIQ4_XS> {
  static constexpr int kOffset = 128;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    const uint8_t* qs = b + offsetof(Block, qs);
    return turn_table_halves(load_dwords(qs, 32), load_dwords(qs + 16, 32), kIq4nl, kOffset);
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    const auto low = word_at<uint32_t>(b + offsetof(Block, scales_l));
    const auto high = word_at<uint16_t>(b + offsetof(Block, scales_h));
    uint64_t codes = fields_to_bytes<4>(low);
    codes |= fields_to_bytes<2>(high) << 4;
    return splat_float(half_at(b + offsetof(Block, d))) * (doubled_bytes(codes) - splat_float(32));
  }
};

// --- code books -----------------------------------------------------------------------------------------------------

#ifndef STRATA_OWN_CODE_BOOKS
template <int kOffset, class Index>
STRATA_INLINE Codes turn_signed_eights(const uint64_t* grid, const Index& index, const Signs& signs) {
  return turn(negate<kOffset, 0>(eights<0>(grid, index), signs), negate<kOffset, 1>(eights<1>(grid, index), signs),
              negate<kOffset, 2>(eights<2>(grid, index), signs), negate<kOffset, 3>(eights<3>(grid, index), signs));
}
// The shift of an eighth is part of the codes, which are eight times the values; bit i of `minus`: of the i-th eight.
STRATA_INLINE Codes turn_shifted_eights(const Indices32& index, uint32_t minus) {
  return turn(lower_eights<0>(eights<0>(kIq1s, index), minus), lower_eights<1>(eights<1>(kIq1s, index), minus),
              lower_eights<2>(eights<2>(kIq1s, index), minus), lower_eights<3>(eights<3>(kIq1s, index), minus));
}
template <int kOffset, class Index>
STRATA_INLINE Codes turn_signed_fours(const uint32_t* grid, const Index& index, const Signs& signs) {
  return turn(negate<kOffset, 0>(fours<0>(grid, index), signs), negate<kOffset, 1>(fours<1>(grid, index), signs),
              negate<kOffset, 2>(fours<2>(grid, index), signs), negate<kOffset, 3>(fours<3>(grid, index), signs));
}
// Indices of a byte with 7-bit sign codes; indices with a ninth bit and sign bytes.
STRATA_INLINE Codes iq3_xxs_codes(const uint8_t* index, const uint8_t* sign_codes) {
  return turn_signed_fours<kIq3Offset>(kIq3xxs, indices_of_fours(index), even_signs_of_dwords<4>(sign_codes));
}
STRATA_INLINE Codes iq3_s_codes(const uint8_t* index, const uint8_t* ninth_bits, const uint8_t* signs) {
  return turn_signed_fours<kIq3Offset>(kIq3s, indices_of_fours(index, ninth_bits), load_signs(signs));
}
constexpr ActOrder kFoursOrder = ActOrder::quads;
#endif

struct FormatIQ2_XXS : Format<BlockIQ2_XXS> {
  static constexpr int kOffset = kIq2Offset;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    const uint8_t* groups = b + offsetof(Block, groups);
    return turn_signed_eights<kOffset>(kIq2xxs, byte_indices_of_eights(groups), even_signs_of_dwords<8>(groups));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    const Floats code = doubled_top_nibbles<8>(b + offsetof(Block, groups));
    return splat_float(half_at(b + offsetof(Block, d))) * (splat_float(0.5f) + code) * splat_float(0.25f);
  }
};

// Half a byte of scale per group.
STRATA_INLINE Floats iq2_scale(float d, const uint8_t* scales) {
  const auto packed = word_at<uint64_t>(scales);
  const Floats code = floats_of_bytes(fields_to_bytes<4>(static_cast<uint32_t>(packed)),
                                      fields_to_bytes<4>(static_cast<uint32_t>(packed >> 32)));
  return splat_float(d) * (splat_float(0.5f) + code) * splat_float(0.25f);
}

struct FormatIQ2_XS : Format<BlockIQ2_XS> {
  static constexpr int kOffset = kIq2Offset;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    const uint8_t* words = b + offsetof(Block, qs);
    return turn_signed_eights<kOffset>(kIq2xs, low_9_bits(words), even_signs_of_words(words));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    return iq2_scale(half_at(b + offsetof(Block, d)), b + offsetof(Block, scales));
  }
};

struct FormatIQ2_S : Format<BlockIQ2_S> {
  static constexpr int kOffset = kIq2Offset;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    const Indices32 index = with_high_bits_of_bytes<2, 2>(byte_indices(b + offsetof(Block, qs)), b + offsetof(Block, qh));
    return turn_signed_eights<kOffset>(kIq2s, index, load_signs(b + offsetof(Block, signs)));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    return iq2_scale(half_at(b + offsetof(Block, d)), b + offsetof(Block, scales));
  }
};

struct FormatIQ1_S : Format<BlockIQ1_S> {
  static constexpr int kOffset = kIq1Offset;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    const uint8_t* high = b + offsetof(Block, qh);
    const Indices32 index = with_high_bits_of_words<3, 3>(byte_indices(b + offsetof(Block, qs)), high);
    return turn_shifted_eights(index, minus_of_words(high));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    const Floats odd = doubled_threes<12>(b + offsetof(Block, qh)) * splat_float(2) + splat_float(1);
    return splat_float(half_at(b + offsetof(Block, d))) * odd * splat_float(0.125f);
  }
};

struct FormatIQ1_M : Format<BlockIQ1_M> {
  static constexpr int kOffset = kIq1Offset;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    const uint8_t* high = b + offsetof(Block, qh);
    const Indices32 index = with_high_bits_of_words<4, 3>(byte_indices(b + offsetof(Block, qs)), high);
    return turn_shifted_eights(index, minus_of_halves(high));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    const auto words = word_at<uint64_t>(b + offsetof(Block, scales));
    const uint64_t first = threes_of_two_words(static_cast<uint32_t>(words));
    const uint64_t second = threes_of_two_words(static_cast<uint32_t>(words >> 32));
    const auto d = static_cast<uint16_t>((words >> 12 & 15) | (words >> 24 & 0xf0) | (words >> 36 & 0xf00) |
                                         (words >> 48 & 0xf000));
    const Floats odd = floats_of_bytes(first * 2 + 0x0101010101010101u, second * 2 + 0x0101010101010101u);
    return splat_float(half_of(d)) * odd * splat_float(0.125f);
  }
};

struct FormatIQ3_XXS : Format<BlockIQ3_XXS> {
  static constexpr int kOffset = kIq3Offset;
  static constexpr ActOrder kOrder = kFoursOrder;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    return iq3_xxs_codes(b + offsetof(Block, qs), b + offsetof(Block, signs_scales));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    const Floats code = doubled_top_nibbles<4>(b + offsetof(Block, signs_scales));
    return splat_float(half_at(b + offsetof(Block, d))) * (splat_float(0.5f) + code) * splat_float(0.5f);
  }
};

struct FormatIQ3_S : Format<BlockIQ3_S> {
  static constexpr int kOffset = kIq3Offset;
  static constexpr ActOrder kOrder = kFoursOrder;
  static STRATA_INLINE Codes codes(const uint8_t* b) {
    return iq3_s_codes(b + offsetof(Block, qs), b + offsetof(Block, qh), b + offsetof(Block, signs));
  }
  static STRATA_INLINE Floats scale(const uint8_t* b) {
    const uint64_t codes = fields_to_bytes<4>(word_at<uint32_t>(b + offsetof(Block, scales)));
    return splat_float(half_at(b + offsetof(Block, d))) * doubled_bytes(codes * 2 + 0x0101010101010101u);
  }
};

}  // namespace
}  // namespace strata
