// Any bytes either bind as a model or fail with a status. Everything that a bound model points at lies inside one
// tensor of the input or inside its own copies, whose size the input justifies. An input may hold a trunk and, after
// kSeparator, the file of its draft head.
#include "model/weights.h"

namespace {

using strata::Model;
using strata::Weight;

constexpr std::string_view kSeparator = "\n--draft--\n";
// The smallest format keeps 256 values in 50 bytes, hence 1024 bytes of float32.
constexpr uint64_t kMaxGrowth = 21;

class Bounds {
 public:
  explicit Bounds(const Model& model) : model_(model) {
    for (const strata::Gguf* file : {model.file.get(), model.draft_file.get()}) {
      if (file == nullptr) continue;
      for (const strata::GgufTensor& t : file->tensors()) add(t.data, t.bytes);
    }
    for (const auto& copy : model.copies) add(copy.data(), copy.size());
  }

  void weight(const Weight& w) const {
    if (w) bytes(w.data, w.bytes());
  }
  void hyper(const strata::HyperWeights& h) const {
    floats(h.norm, int64_t{1} * h.streams * h.d_model);
    for (const Weight* w : {&h.down, &h.up, &h.inject}) weight(*w);
  }
  void block(const strata::Block& b) const;
  void floats(const float* at, int64_t count) const {
    for (const auto& small : model_.small) {
      if (small.data() == at && small.size() == static_cast<size_t>(count)) return;
    }
    CHECK(false, "{} values are nowhere", count);
  }

 private:
  void add(const void* data, size_t size) { places_.push_back({static_cast<const std::byte*>(data), size}); }
  void bytes(const std::byte* at, size_t size) const {
    for (const auto& place : places_) {
      const auto offset = reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(place.data());
      if (offset <= place.size() && size <= place.size() - offset) return;
    }
    CHECK(false, "{} bytes lie in no tensor", size);
  }
  void experts(const strata::ExpertTensors::Part& part, int64_t cols, int64_t rows, int n) const {
    const size_t each = strata::row_bytes(part.type, cols) * static_cast<size_t>(rows);
    CHECK(each <= part.stride, "experts of {} bytes every {}", each, part.stride);
    bytes(part.data, part.stride * static_cast<size_t>(n - 1) + each);
    if (part.scales != nullptr) floats(part.scales, n);
  }

  const Model& model_;
  std::vector<std::span<const std::byte>> places_;
};

void Bounds::block(const strata::Block& b) const {
  const strata::ModelConfig& c = model_.config;
  hyper(b.attn_hyper);
  hyper(b.ffn_hyper);
  for (const Weight* w :
       {&b.gdn.qkv, &b.gdn.gate, &b.gdn.beta, &b.gdn.alpha, &b.gdn.out, &b.attention.q, &b.attention.k, &b.attention.v,
        &b.attention.out, &b.attention.index_q, &b.attention.index_k, &b.ngram.key, &b.ngram.value, &b.router,
        &b.shared.gate, &b.shared.up, &b.shared.down, &b.shared_gate}) {
    weight(*w);
  }
  if (b.config.mixer == strata::Mixer::delta_net) {
    floats(b.gdn.conv, int64_t{b.gdn.channels()} * b.gdn.conv_kernel);
    floats(b.gdn.norm, b.gdn.v_dim);
  } else {
    floats(b.attention.q_norm, b.attention.head_dim);
  }
  if (b.config.ngram) floats(b.ngram.conv, int64_t{1} * c.wide() * b.ngram.conv_kernel);
  experts(b.experts.gate, c.d_model, b.config.expert_width, b.config.n_experts);
  experts(b.experts.up, c.d_model, b.config.expert_width, b.config.n_experts);
  experts(b.experts.down, b.config.expert_width, c.d_model, b.config.n_experts);
}

void check_model(const Model& model) {
  const Bounds bounds(model);
  for (const strata::Block& b : model.blocks) bounds.block(b);
  for (const Weight* w : {&model.embed, &model.head, &model.ngram_table}) bounds.weight(*w);
  bounds.hyper(model.output_hyper);
  if (model.draft) {
    bounds.block(model.draft->block);
    bounds.hyper(model.draft->head_hyper);
    bounds.floats(model.draft->entry.hidden_norm, model.config.wide());
    for (const Weight* w : {&model.draft->head, &model.draft->entry.embed, &model.draft->entry.proj}) bounds.weight(*w);
  }
  CHECK(strata::bytes_per_token(model) > 0, "a token without weights");
  CHECK(strata::fingerprint(model) == strata::fingerprint(model), "a model has one fingerprint");
}

void check_growth(const Model& model, size_t input) {
  uint64_t copied = 0;
  for (const auto& small : model.small) copied += small.size() * sizeof(float);
  for (const auto& copy : model.copies) copied += copy.size();
  CHECK(copied <= kMaxGrowth * input, "{} bytes were copied out of {}", copied, input);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find(kSeparator), size);
  const bool has_draft = end < size;
  auto trunk = strata::Gguf::parse({{"trunk", std::as_bytes(std::span(input.substr(0, end)))}});
  if (!trunk.ok()) return 0;
  const auto model = strata::bind_trunk(std::move(*trunk), !has_draft);
  if (!model.ok()) {
    CHECK(!model.status().message().empty(), "a failure without a message");
    return 0;
  }
  check_growth(**model, size);
  if (has_draft) {
    auto draft = strata::Gguf::parse({{"draft", std::as_bytes(std::span(input.substr(end + kSeparator.size())))}});
    if (!draft.ok()) return 0;
    const strata::Status bound = strata::bind_draft(std::move(*draft), **model);
    check_growth(**model, size);
    if (!bound.ok()) {
      CHECK(!bound.message().empty(), "a failure without a message");
      return 0;
    }
  }
  check_model(**model);
  return 0;
}
