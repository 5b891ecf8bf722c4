// A model whose tensors have been found in its files: every sub-layer's weights, ready for ops/. Owns the open files
// and the float32 copies of small tensors; matrices stay where the file map has them.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "ops/weights.h"
#include "tensor/gguf.h"

namespace strata {

// The routed experts of one block as they lie in the file; experts/store turns them into places.
struct ExpertTensors {
  struct Part {
    DType type = DType::F32;
    const std::byte* data = nullptr;
    size_t stride = 0;              // bytes from one expert to the next
    const float* scales = nullptr;  // [n_experts], or null
  };
  Part gate, up, down;

  size_t bytes_each(int64_t d_model, int64_t width) const {
    const auto w = static_cast<size_t>(width), d = static_cast<size_t>(d_model);
    return w * (row_bytes(gate.type, d_model) + row_bytes(up.type, d_model)) + d * row_bytes(down.type, width);
  }
};

struct Block {
  BlockConfig config;
  HyperWeights attn_hyper, ffn_hyper;
  GdnWeights gdn;        // when config.mixer is delta_net
  QsaWeights attention;  // when it is attention
  PleWeights ngram;      // when config.ngram
  Weight router;         // [n_experts, D]
  ExpertTensors experts;
  FfnWeights shared;
  Weight shared_gate;  // [1, D]
};

// The draft head: fuses a row's wide residual with the next token's embedding, runs one attention block, predicts the
// token after. docs/model.md.
struct DraftHead {
  Block block;
  DraftWeights entry;
  HyperWeights head_hyper;
  Weight head;
};

struct Model {
  ModelConfig config;
  Weight embed, head;  // token table [vocab, D]; output matrix [vocab, D]
  HyperWeights output_hyper;
  Weight ngram_table;  // [rows, row_width]
  std::vector<Block> blocks;
  std::optional<DraftHead> draft;
  std::vector<std::string> notes;  // for the user: tensors that nothing uses, and the like

  std::shared_ptr<const Gguf> file, draft_file;
  std::deque<std::vector<float>> small;       // float32 copies; a deque so that pointers stay
  std::deque<std::vector<std::byte>> copies;  // matrices that the file keeps in two parts
  uint64_t float_bytes = 0;

  const Block& block(LayerId layer) const {  // the draft block follows the trunk's
    const auto i = static_cast<size_t>(layer.v);
    return i < blocks.size() ? blocks[i] : draft->block;
  }
  int n_expert_layers() const { return static_cast<int>(blocks.size()) + (draft ? 1 : 0); }
};

// Opens the files, reads the geometry, finds every tensor. All missing and misshapen tensors are reported together.
// draft_path may be "" (a draft head inside the trunk file is still found).
Result<std::shared_ptr<const Model>> load_model(const std::string& path, const std::string& draft_path);

// The two halves of load_model, for files that are open already. with_draft: binds a draft head in the trunk's file.
Result<std::shared_ptr<Model>> bind_trunk(Gguf file, bool with_draft);
Status bind_draft(Gguf file, Model& model);  // after a failure the model is of no use

// Weight bytes read to compute one generated token (dense weights, used experts, head, table rows).
uint64_t bytes_per_token(const Model& model);

// Tells models apart that have the same geometry: hashes the architecture's keys and the names, types, shapes and
// samples of every tensor's bytes, in the draft file too.
uint64_t fingerprint(const Model& model);

}  // namespace strata
