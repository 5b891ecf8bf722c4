// The keys of a synthetic model file: geometry, n-gram hash, and a byte-level vocabulary of the wanted size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/synth.h"
#include "tensor/gguf_writer.h"

namespace strata {

inline constexpr int64_t kSynthVocabMin = 320;  // bytes, control tokens and some merges

void set_synth_keys(const SynthSpec& spec, GgufWriter& out);

// Sizes of the n-gram heads: of all runs of consecutive primes, the one that fills `rows` best. Empty: too few rows.
std::vector<uint64_t> ngram_head_rows(uint64_t rows, size_t heads);

// Multipliers of the n-gram hash, one per token of the longest n-gram; those of the real model for its vocabulary.
std::vector<uint64_t> ngram_multipliers(size_t size, uint64_t vocab);

// Ids of the first control token, <|endoftext|>; the others follow, then padding to the end.
int64_t first_control_id(int64_t vocab);

}  // namespace strata
