// The engine: token ids in, token ids out. Owns the model, the memory and the step loop; knows no text.
// Single-threaded by contract: one thread calls open, submit and step; cancel may come from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/memory_plan.h"
#include "engine/sampler.h"

namespace strata {

struct RequestLimits {
  int max_tokens = 0;                // generated tokens; 0: until a stop token or the end of the context
  std::vector<TokenId> stop_tokens;  // delivered to the sink, then the request ends
};

struct Request {
  std::vector<TokenId> prompt;  // at least one token
  SampleParams sample;
  RequestLimits limits;
};

enum class FinishReason { stop, length, context, cancelled, failed };

struct Timings {
  int prompt_tokens = 0;  // all of the prompt
  int cached_tokens = 0;  // of those, not read again
  int generated_tokens = 0;
  double prompt_s = 0, decode_s = 0;
  int steps = 0;                  // of decoding; with drafts a step may yield several tokens
  uint64_t bytes_read = 0;        // weight bytes a step reads for its first row, times steps
  int drafted = 0, accepted = 0;  // tokens proposed by the draft head, and kept

  double prompt_tokens_per_s() const { return prompt_s > 0 ? (prompt_tokens - cached_tokens) / prompt_s : 0; }
  double decode_tokens_per_s() const {
    return decode_s > 0 ? (generated_tokens - 1) / decode_s : 0;
  }  // first token: prompt
  double gb_per_s() const { return decode_s > 0 ? static_cast<double>(bytes_read) / decode_s * 1e-9 : 0; }
};

struct Finished {
  FinishReason reason = FinishReason::stop;
  Status status;  // not ok only when reason is failed
  Timings timings;
  uint64_t logits_hash = 0;  // of the last logits; comparable for one build, ISA and thread count
};

// Where a request's events go. Called from inside step().
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void on_prompt(int done, int total) = 0;  // prompt tokens read so far
  virtual void on_token(TokenId token, float logprob) = 0;
  virtual void on_finished(const Finished& finished) = 0;  // last event of a request
};

struct LoadProgress {
  std::string stage;
  double fraction = 0;
};
using ProgressFn = std::function<void(const LoadProgress&)>;

using RequestId = uint64_t;

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options, const ProgressFn& progress);
  ~Engine();

  // Checked here, before any computing: empty prompt, ids outside the vocabulary, prompt longer than the context
  // (message with both counts), parameters out of range.
  Result<RequestId> submit(Request request, Sink& sink);
  // One step of the running request; false when nothing is left to do.
  bool step();
  void cancel(RequestId id);

  // Negative log likelihood of tokens[1..] given what precedes each, read as one prompt. Result has tokens.size() - 1
  // entries. on_progress(done) is called after each chunk. tokens must fit the context.
  Result<std::vector<float>> score(std::span<const TokenId> tokens, const std::function<void(int)>& on_progress);

  // Writes the file of EngineOptions::trace_routing: the experts of every token that the sequence holds now, which is
  // the last request without the token that ended it. Returns how many tokens that is.
  Result<Pos> save_routing() const;

  const Plan& plan() const;
  const ModelFacts& facts() const;
  const char* device() const;
  const char* isa() const;  // of the kernels that compute; "none" on the plain device

 private:
  struct Parts;
  explicit Engine(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// What a file is and what it would cost on this machine, for `info`, without placing it. Fails when it cannot run.
struct Inspection {
  ModelFacts facts;
  std::vector<std::string> notes;
  Result<Plan> plan;
};
Result<Inspection> inspect_model(const EngineOptions& options, const Machine& machine);

}  // namespace strata
