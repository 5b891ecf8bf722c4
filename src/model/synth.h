// Model files of the true structure with random weights, of any geometry, mix of formats and size: what one measures
// with, not what one talks to. The same spec gives the same bytes, whatever the number of threads and the machine.
// Activations stay finite over any number of blocks. Tensors are filled piece by piece, so that a file may be many
// times larger than memory. Adds nothing to the format: every file is read like a published one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/threads.h"
#include "tensor/tensor.h"

namespace strata {

// Formats of one kind of tensor, block after block: block i has entry i mod size.
using TypeMap = std::vector<DType>;

// Numbers and formats have names for people, such as "expert-width" or "type.experts-in" (synth_keys).
struct SynthSpec {
  std::string preset = "real";
  int64_t layers = 48, attention_interval = 4, embedding = 2560, vocab = 248320, context = 262144;
  int64_t streams = 4, hyper_rank = 320;
  int64_t heads = 24, kv_heads = 2, head_dim = 256, rope_dims = 64, rope_base = 10'000'000;
  int64_t index_heads = 4, index_dim = 128, index_budget = 2048, index_block = 4;  // index_block 0: no indexer
  int64_t gdn_key_heads = 16, gdn_value_heads = 48, gdn_dim = 128, gdn_conv = 4;
  int64_t experts = 512, experts_used = 10, expert_width = 640, shared_width = 640, draft_experts = 512;
  int64_t ngram_rows = 320'001'536, ngram_size = 3, ngram_heads = 8, ngram_width = 160, ngram_conv = 4;  // rows 0: none
  TypeMap embedding_type{DType::IQ3_S}, head_type{DType::Q5_K}, table_type{DType::IQ4_NL};
  TypeMap mixer_in{DType::Q5_K}, mixer_out{DType::Q4_K}, hyper{DType::BF16}, small{DType::BF16}, router{DType::BF16};
  TypeMap experts_in{DType::IQ3_XXS}, experts_out{DType::IQ4_NL}, shared_in{DType::Q5_K}, shared_out{DType::IQ4_NL};
  TypeMap ngram_key{DType::IQ3_XXS}, ngram_value{DType::BF16};

  bool mtp = false;    // a draft head after the last block
  bool split = false;  // the n-gram table in a file of its own
  uint64_t seed = 1;
  // How uneven the choice of experts is: row e of each router is scaled by exp(skew * z), z normally distributed, so
  // that experts with long rows are chosen often and those with short ones almost never. 0: nearly all alike.
  double router_skew = 0;

  bool has_ngrams() const { return ngram_rows > 0; }
  bool attends(int64_t block) const { return (block + 1) % attention_interval == 0; }
  int64_t wide() const { return streams * embedding; }
};

// "real": the published geometry at full size, routed experts in IQ3_XXS and IQ4_NL. "gsq-iq3_xxs": the same geometry
// with formats that change from block to block, as in a published file of 75.8 GB. "nano": that of the bundled model.
Result<SynthSpec> synth_preset(const std::string& name);
std::vector<std::string> synth_preset_names();

// "KEY=VALUE": a number ("4096", "4k", "320M") or formats ("Q2_0", "IQ3_S,IQ2_XXS*3").
Status synth_set(SynthSpec& spec, const std::string& assignment);
struct SynthKey {
  std::string name, meaning, value;  // value: as in `spec`
};
std::vector<SynthKey> synth_keys(const SynthSpec& spec);

// What makes the numbers of a spec one model; synth_tensors needs it.
Status check_synth(const SynthSpec& spec);

enum class SynthValues : uint8_t {
  weights,   // mean 0
  norm,      // around 1
  decay,     // negative, of many sizes
  router,    // weights with rows of many sizes (router_skew)
  constant,  // all alike
};

struct SynthTensor {
  std::string name;
  DType type = DType::F32;
  Shape shape;
  SynthValues values = SynthValues::weights;
  float rms = 0;
  int shard = 0;
};

// Every tensor of the file in order. Fails on a format whose blocks do not divide a row, naming the tensor.
Result<std::vector<SynthTensor>> synth_tensors(const SynthSpec& spec);

// Blocks first_block, first_block + 1, ... of a tensor: as many as fill `out`, a whole number of them.
void fill_synth(const SynthSpec& spec, const SynthTensor& tensor, int64_t first_block, std::span<std::byte> out);

// The files that write_synth makes: `path`, or its shards.
std::vector<std::string> synth_paths(const SynthSpec& spec, const std::string& path);

struct SynthFiles {
  std::vector<std::string> paths;
  uint64_t bytes = 0;
  size_t n_tensors = 0;
};
// Called again and again with the bytes made so far, of how many; what is not ok stops, and nothing is left behind.
using SynthProgress = std::function<Status(uint64_t done, uint64_t total)>;

// Refuses before writing when the disk has no room. Files that exist are replaced, when the new ones are complete.
Result<SynthFiles> write_synth(const SynthSpec& spec, const std::string& path, WorkerPool& pool,
                               const SynthProgress& progress);

}  // namespace strata
