// The bundled model (or any other file) on one back end, below the engine: sequences and the forward pass by hand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/device_choice.h"
#include "engine/forward.h"
#include "engine/scheduler.h"
#include "experts/store.h"
#include "model/weights.h"
#include "state/sequence.h"

namespace strata::testing {

inline std::string bundled_model() {
  return std::string(STRATA_SOURCE_DIR) + "/models/flash-next-nano-IQ3_XXS.gguf";
}
inline std::string bundled_draft() {
  return std::string(STRATA_SOURCE_DIR) + "/models/flash-next-nano-MTP-IQ4_NL.gguf";
}

struct Harness {
  std::shared_ptr<const Model> model;
  Plan plan;
  Device device;
  std::unique_ptr<Store> store;
  std::unique_ptr<PagePool> pages;
  std::vector<const GdnWeights*> gdn_weights;
  std::unique_ptr<Forward> forward;

  // context 0: the model's own. The device may name its instructions: "cpu/avx2".
  Harness(const std::string& device_and_isa, const std::string& path, int context = 0, const std::string& kv = "auto",
          const std::string& draft = "", int spare_pages = 0, int threads = 2) {
    const size_t slash = device_and_isa.find('/');
    const std::string device_name = device_and_isa.substr(0, slash);
    const std::string isa = slash == std::string::npos ? "auto" : device_and_isa.substr(slash + 1);
    model = load_model(path, draft).value();
    ModelFacts facts;
    facts.config = model->config;
    facts.file_bytes = model->file->file_bytes();
    EngineOptions options;
    options.device = device_name, options.kv = kv, options.max_context = context, options.threads = threads;
    plan = make_plan(Machine{}, facts, options, scratch_of(device_name, threads)).value();
    device = make_device(device_name, plan.threads, isa);
    store = std::make_unique<Store>(model);
    for (const Block& b : model->blocks) {
      if (b.config.mixer == Mixer::delta_net) gdn_weights.push_back(&b.gdn);
    }
    const size_t n_pages = plan.n_pages + static_cast<size_t>(spare_pages);
    pages = PagePool::create(device.ops->memory(), kv_geometry(model->config, plan.kv), n_pages).value();
    forward = Forward::create(*device.ops, model, *store, plan).value();
  }

  std::unique_ptr<Sequence> sequence() {
    return Sequence::create(*pages, running_geometry(model->config), {plan.max_context, plan.chunk_rows},
                            [this](SequenceView& view) { device.ops->settle(gdn_weights, view); })
        .value();
  }

  // Runs rows of one role and keeps them; the logits of the last row.
  std::vector<float> extend(Sequence& s, std::span<const TokenRecord> rows) {
    const Status ran = forward->run(s, rows);
    EXPECT_TRUE(ran.ok()) << ran.text();
    s.commit(static_cast<int>(rows.size()));
    const MatF32 last = forward->logits(static_cast<int>(rows.size()) - 1, 1);
    return {last.data, last.data + last.cols};
  }

  // Reads a prompt in pieces of at most `piece` tokens (each piece cut as the scheduler cuts); logits of the last
  // token.
  std::vector<float> read(Sequence& s, std::span<const TokenId> tokens, size_t piece = SIZE_MAX) {
    std::vector<float> last;
    for (size_t at = 0; at < tokens.size();) {
      const size_t n = std::min(piece, tokens.size() - at);
      std::vector<TokenRecord> rows;
      for (size_t i = 0; i < n; ++i) {
        rows.push_back(TokenRecord::text(tokens[at + i], s.next_position() + static_cast<int>(i), RowRole::prompt));
      }
      for (size_t done = 0; done < n;) {
        const auto take = static_cast<size_t>(prompt_chunk(s.length(), static_cast<int>(n - done), plan.chunk_rows));
        last = extend(s, std::span<const TokenRecord>(rows).subspan(done, take));
        done += take;
      }
      at += n;
    }
    return last;
  }

  std::vector<float> decode(Sequence& s, TokenId token) {
    const TokenRecord row = TokenRecord::text(token, s.next_position(), RowRole::generated);
    return extend(s, std::span(&row, 1));
  }
};

}  // namespace strata::testing
