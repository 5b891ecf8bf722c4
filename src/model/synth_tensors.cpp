// Which tensors a spec has, and the numbers in them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "model/synth.h"
#include "quant/half.h"
#include "quant/random_blocks.h"

namespace strata {
namespace {

constexpr float kRmsMin = 0.001f, kRmsMax = 100;  // of random_blocks

DType type_of(const TypeMap& map, int64_t block) {
  return map[static_cast<size_t>(block) % map.size()];
}

// Collects the tensors block by block. Matrices keep the size of what goes through them, but for those that write into
// the residual: these are the smaller the more blocks there are, so that all of them together write about as much as
// the token's own embedding.
class Collector {
 public:
  explicit Collector(const SynthSpec& spec)
      : s_(spec), write_gain_(1 / std::sqrt(2 * static_cast<float>(spec.layers))) {}

  Result<std::vector<SynthTensor>> collect() {
    matrix("token_embd.weight", s_.embedding, s_.vocab, type_of(s_.embedding_type, 0), root(s_.embedding));
    matrix("output.weight", s_.embedding, s_.vocab, type_of(s_.head_type, 0), 4);  // logits that differ
    hyper("output_hc", 0, false);
    for (int64_t i = 0; i < s_.layers; ++i) block(i, s_.attends(i), s_.index_block > 0, s_.experts);
    if (s_.mtp) draft();
    if (s_.has_ngrams()) {
      const size_t before = out_.size();
      matrix("per_layer_token_embd.weight", s_.ngram_width, s_.ngram_rows, type_of(s_.table_type, 0),
             0.5f * root(s_.ngram_width));
      for (SynthTensor& t : std::span(out_).subspan(before)) t.shard = s_.split ? 1 : 0;
    }
    RETURN_IF_ERROR(mistake_);
    return std::move(out_);
  }

 private:
  static float root(int64_t n) { return std::sqrt(static_cast<float>(n)); }

  void add(SynthTensor tensor) {
    const Result<size_t> bytes = checked_bytes(tensor.type, tensor.shape);
    if (!bytes.ok() && mistake_.ok()) {
      mistake_ = {Code::invalid_argument,
                  fmt::format("{} as {}: {}", tensor.name, type_name(tensor.type), bytes.status().message()),
                  "choose another format for it, or another width"};
    }
    out_.push_back(std::move(tensor));
  }

  // gain: of the values that come out over those that go in. NVFP4 has its size in a tensor beside it.
  void stack(const std::string& name, Shape shape, DType type, float gain, SynthValues values = SynthValues::weights) {
    SynthTensor t{name, type, shape, values, 0, 0};
    const float rms = std::clamp(gain / root(shape.ne[0]), kRmsMin, kRmsMax);
    t.rms = type == DType::NVFP4 ? 1 : rms;
    add(t);
    if (type != DType::NVFP4) return;
    const std::string scale = name.substr(0, name.rfind('.')) + ".scale";
    add({scale, DType::F32, Shape::of({shape.ne[2]}), SynthValues::constant, rms, 0});
  }
  void matrix(const std::string& name, int64_t cols, int64_t rows, DType type, float gain = 1) {
    stack(name, Shape::of({cols, rows}), type, gain);
  }
  void experts(const std::string& name, int64_t cols, int64_t rows, int64_t n, DType type, float gain = 1) {
    stack(name, Shape::of({cols, rows, n}), type, gain);
  }
  void vector(const std::string& name, int64_t n, SynthValues values, float rms = 0.1f) {
    add({name, DType::F32, Shape::of({n}), values, rms, 0});
  }
  void norm(const std::string& name, int64_t n) { vector(name + ".weight", n, SynthValues::norm); }

  void hyper(const std::string& prefix, int64_t block, bool writes) {
    const DType type = type_of(s_.hyper, block);
    norm(prefix + "_norm", s_.wide());
    matrix(prefix + "_down.weight", s_.wide(), s_.hyper_rank, type, 2);
    matrix(prefix + "_up.weight", s_.hyper_rank, s_.wide(), type, 2);
    if (writes) matrix(prefix + "_inject.weight", s_.wide(), s_.streams, type);
  }

  void attention(const std::string& p, int64_t block, bool indexed) {
    const DType in = type_of(s_.mixer_in, block), small = type_of(s_.small, block);
    matrix(p + "attn_q.weight", s_.embedding, 2 * s_.heads * s_.head_dim, in);
    matrix(p + "attn_k.weight", s_.embedding, s_.kv_heads * s_.head_dim, in);
    matrix(p + "attn_v.weight", s_.embedding, s_.kv_heads * s_.head_dim, in);
    matrix(p + "attn_output.weight", s_.heads * s_.head_dim, s_.embedding, type_of(s_.mixer_out, block), write_gain_);
    norm(p + "attn_q_norm", s_.head_dim);
    norm(p + "attn_k_norm", s_.head_dim);
    if (!indexed) return;
    matrix(p + "indexer.q_proj.weight", s_.embedding, s_.index_heads * s_.index_dim, small);
    matrix(p + "indexer.k_proj.weight", s_.embedding, s_.index_dim, small);
    norm(p + "indexer.q_norm", s_.index_dim);
    norm(p + "indexer.k_norm", s_.index_dim);
  }

  void delta_net(const std::string& p, int64_t block) {
    const DType in = type_of(s_.mixer_in, block), small = type_of(s_.small, block);
    const int64_t value = s_.gdn_value_heads * s_.gdn_dim;
    const int64_t channels = value + 2 * s_.gdn_key_heads * s_.gdn_dim;
    matrix(p + "attn_qkv.weight", s_.embedding, channels, in);
    matrix(p + "attn_gate.weight", s_.embedding, value, in);
    matrix(p + "ssm_beta.weight", s_.embedding, s_.gdn_value_heads, small);
    matrix(p + "ssm_alpha.weight", s_.embedding, s_.gdn_value_heads, small);
    matrix(p + "ssm_out.weight", value, s_.embedding, type_of(s_.mixer_out, block), write_gain_);
    matrix(p + "ssm_conv1d.weight", s_.gdn_conv, channels, DType::F32);
    vector(p + "ssm_dt.bias", s_.gdn_value_heads, SynthValues::weights);
    vector(p + "ssm_a", s_.gdn_value_heads, SynthValues::decay, 1);
    norm(p + "ssm_norm", s_.gdn_dim);
  }

  void ngrams(const std::string& p) {
    const int64_t in = s_.ngram_heads * (s_.ngram_size - 1) * s_.ngram_width;
    matrix(p + "ple_key.weight", in, s_.wide(), type_of(s_.ngram_key, 0));
    matrix(p + "ple_value.weight", in, s_.embedding, type_of(s_.ngram_value, 0));
    for (const char* part : {"key", "query", "conv"}) norm(p + "ple_norm_" + part, s_.wide());
    matrix(p + "ple_conv1d.weight", s_.ngram_conv, s_.wide(), DType::F16, 0.5f);
  }

  void block(int64_t i, bool attends, bool indexed, int64_t n_experts) {
    const std::string p = fmt::format("blk.{}.", i);
    const int64_t d = s_.embedding;
    hyper(p + "hc_attn", i, true);
    if (attends) attention(p, i, indexed);
    if (!attends) delta_net(p, i);
    if (s_.has_ngrams() && i == std::min<int64_t>(1, s_.layers - 1)) ngrams(p);
    hyper(p + "hc_ffn", i, true);
    stack(p + "ffn_gate_inp.weight", Shape::of({d, n_experts}), type_of(s_.router, i), 2, SynthValues::router);
    const DType in = type_of(s_.experts_in, i), shared = type_of(s_.shared_in, i);
    experts(p + "ffn_gate_exps.weight", d, s_.expert_width, n_experts, in, 2);
    experts(p + "ffn_up_exps.weight", d, s_.expert_width, n_experts, in, 2);
    experts(p + "ffn_down_exps.weight", s_.expert_width, d, n_experts, type_of(s_.experts_out, i), 2 * write_gain_);
    stack(p + "ffn_gate_inp_shexp.weight", Shape::of({d}), type_of(s_.router, i), 1);
    matrix(p + "ffn_gate_shexp.weight", d, s_.shared_width, shared, 2);
    matrix(p + "ffn_up_shexp.weight", d, s_.shared_width, shared, 2);
    matrix(p + "ffn_down_shexp.weight", s_.shared_width, d, type_of(s_.shared_out, i), write_gain_);
  }

  void draft() {
    block(s_.layers, true, true, s_.draft_experts);
    const std::string n = fmt::format("blk.{}.nextn.", s_.layers);
    norm(n + "enorm", s_.embedding);
    norm(n + "hnorm", s_.wide());
    matrix(n + "eh_proj.weight", 2 * s_.embedding, s_.embedding, type_of(s_.mixer_in, s_.layers));
    hyper(n + "hc_head", s_.layers, false);
  }

  const SynthSpec& s_;
  float write_gain_;
  std::vector<SynthTensor> out_;
  Status mistake_;
};

uint64_t mix(uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Of the name and the spec's seed alone: other tensors change nothing.
uint64_t seed_of(const SynthSpec& spec, const SynthTensor& tensor) {
  uint64_t seed = mix(spec.seed + 0x9e3779b97f4a7c15u);
  for (const char c : tensor.name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

// Of nearly normal distribution: the sum of twelve uniform numbers, exact on every machine.
double normal(uint64_t seed) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(mix(seed += 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53;
  return sum;
}

void fill_router(const SynthSpec& spec, const SynthTensor& t, uint64_t seed, int64_t first, std::span<std::byte> out) {
  const TypeTraits& type = traits(t.type);
  const int64_t row_blocks = t.shape.ne[0] / type.block_elems;
  int64_t left = static_cast<int64_t>(out.size()) / type.block_bytes;
  for (std::byte* at = out.data(); left > 0;) {
    const int64_t row = first / row_blocks;
    const int64_t n = std::min(left, (row + 1) * row_blocks - first);
    const double scale = std::exp(spec.router_skew * normal(seed ^ mix(static_cast<uint64_t>(row) + 1)));
    const float rms = std::clamp(t.rms * static_cast<float>(scale), kRmsMin, kRmsMax);
    random_blocks(t.type, seed, n, at, rms, first);
    at += n * type.block_bytes, first += n, left -= n;
  }
}

}  // namespace

Result<std::vector<SynthTensor>> synth_tensors(const SynthSpec& spec) {
  RETURN_IF_ERROR(check_synth(spec));
  return Collector(spec).collect();
}

void fill_synth(const SynthSpec& spec, const SynthTensor& tensor, int64_t first_block, std::span<std::byte> out) {
  const TypeTraits& type = traits(tensor.type);
  const auto n = static_cast<int64_t>(out.size()) / type.block_bytes;
  CHECK(n * type.block_bytes == static_cast<int64_t>(out.size()), "{}: {} bytes", tensor.name, out.size());
  const uint64_t seed = seed_of(spec, tensor);
  if (tensor.values == SynthValues::router && spec.router_skew > 0)
    return fill_router(spec, tensor, seed, first_block, out);
  random_blocks(tensor.type, seed, n, out.data(), tensor.rms, first_block);
  if (tensor.values == SynthValues::weights || tensor.values == SynthValues::router) return;
  CHECK(tensor.type == DType::F32, "{} is {}", tensor.name, type_name(tensor.type));
  for (int64_t i = 0; i < n; ++i) {
    std::byte* at = out.data() + i * static_cast<int64_t>(sizeof(float));
    float v;
    std::memcpy(&v, at, sizeof v);
    if (tensor.values == SynthValues::norm) v += 1;
    if (tensor.values == SynthValues::decay) v = -std::exp2(2 * v - 4);  // half-lives of some 1 to 100 tokens
    if (tensor.values == SynthValues::constant) v = tensor.rms;
    std::memcpy(at, &v, sizeof v);
  }
}

}  // namespace strata
