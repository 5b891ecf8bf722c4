#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <unordered_set>

#include "engine/device_choice.h"
#include "engine/forward.h"
#include "engine/scheduler.h"
#include "experts/store.h"
#include "model/weights.h"
#include "state/sequence.h"

namespace strata {
namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

uint64_t hash_logits(MatF32 row) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(row.data);
  uint64_t h = 0xcbf29ce484222325ULL;
  for (size_t i = 0; i < static_cast<size_t>(row.cols) * sizeof(float); ++i) h = (h ^ bytes[i]) * 0x100000001b3ULL;
  return h;
}

ModelFacts facts_of(const Model& model) {
  ModelFacts f;
  f.config = model.config;
  f.file_bytes = model.file->file_bytes() + (model.draft_file ? model.draft_file->file_bytes() : 0);
  f.table_bytes = model.ngram_table ? model.ngram_table.bytes() : 0;
  f.bytes_per_token = bytes_per_token(model);
  f.float_bytes = model.float_bytes;
  return f;
}

// A request on its way: what is still to be read, what was said, and when.
struct Active {
  RequestId id = 0;
  Request request;
  Sink* sink = nullptr;
  bool started = false;
  std::vector<TokenRecord> unread;    // rows not computed yet, in order
  size_t read = 0;                    // of unread
  std::vector<TokenId> history;       // prompt and answer
  uint64_t logits_hash = 0;
  double start_s = 0, first_token_s = 0;
  Timings timings;

  std::span<const TokenRecord> rest() const { return std::span(unread).subspan(read); }
};

// Rows that can be computed in one step: one role, cut as the scheduler says.
std::span<const TokenRecord> next_rows(std::span<const TokenRecord> rest, Pos length, int chunk_rows) {
  const RowRole role = rest.front().role;
  size_t run = 1;
  while (run < rest.size() && rest[run].role == role) ++run;
  if (role == RowRole::generated) return rest.first(std::min<size_t>(run, kMaxWindow));
  return rest.first(static_cast<size_t>(prompt_chunk(length, static_cast<int>(run), chunk_rows)));
}

}  // namespace

struct Engine::Parts {
  std::shared_ptr<const Model> model;
  ModelFacts facts;
  Plan plan;
  Device device;
  std::unique_ptr<Store> store;
  std::unique_ptr<PagePool> pages;
  std::vector<const GdnWeights*> gdn_weights;
  std::unique_ptr<Sequence> sequence;
  std::unique_ptr<Forward> forward;

  std::deque<Active> queue;
  RequestId next_id = 1;
  std::mutex cancel_mutex;
  std::unordered_set<RequestId> cancelled;

  Status allocate();
  Status files_unchanged() const;
  bool take_cancelled(RequestId id);
  void start(Active& a);
  void finish(Active& a, FinishReason reason, Status status);
  // One step of a request; true when it has ended.
  bool advance(Active& a);
  bool deliver(Active& a, MatF32 logits);
};

Status Engine::Parts::allocate() {
  store = std::make_unique<Store>(model);
  for (const Block& b : model->blocks) {
    if (b.config.mixer == Mixer::delta_net) gdn_weights.push_back(&b.gdn);
  }
  Ops& ops = *device.ops;
  ASSIGN_OR_RETURN(pages, PagePool::create(ops.memory(), kv_geometry(model->config, plan.kv), plan.n_pages));
  ASSIGN_OR_RETURN(sequence, Sequence::create(*pages, running_geometry(model->config), {plan.max_context, plan.chunk_rows},
                                              [this](SequenceView& view) { device.ops->settle(gdn_weights, view); }));
  ASSIGN_OR_RETURN(forward, Forward::create(ops, model, *store, plan));
  return {};
}

Status Engine::Parts::files_unchanged() const {
  RETURN_IF_ERROR(model->file->unchanged());
  return model->draft_file ? model->draft_file->unchanged() : Status();
}

bool Engine::Parts::take_cancelled(RequestId id) {
  const std::lock_guard lock(cancel_mutex);
  return cancelled.erase(id) > 0;
}

// Goes back to where the new prompt leaves what is known, and lists what has to be read.
void Engine::Parts::start(Active& a) {
  a.started = true;
  a.start_s = now_s();
  const auto& prompt = a.request.prompt;
  const auto known = sequence->records();
  size_t same = 0;
  while (same < known.size() && same + 1 < prompt.size() && known[same].token == prompt[same]) ++same;
  a.unread = sequence->rewind(static_cast<Pos>(same));
  a.timings.prompt_tokens = static_cast<int>(prompt.size());
  a.timings.cached_tokens = sequence->length();
  int position = a.unread.empty() ? sequence->next_position() : a.unread.back().pos.t + 1;
  for (size_t i = same; i < prompt.size(); ++i) a.unread.push_back(TokenRecord::text(prompt[i], position++, RowRole::prompt));
  a.history = prompt;
}

void Engine::Parts::finish(Active& a, FinishReason reason, Status status) {
  a.timings.decode_s = a.first_token_s > 0 ? now_s() - a.first_token_s : 0;
  if (a.first_token_s == 0 && a.started) a.timings.prompt_s = now_s() - a.start_s;
  const int decoded = std::max(0, a.timings.generated_tokens - 1);
  a.timings.bytes_read = facts.bytes_per_token * static_cast<uint64_t>(decoded);
  a.sink->on_finished({reason, std::move(status), a.timings, a.logits_hash});
}

bool Engine::Parts::deliver(Active& a, MatF32 row) {
  a.logits_hash = hash_logits(row);
  const auto drawn = draw({row.data, static_cast<size_t>(row.cols)}, a.request.sample, a.history, sequence->length());
  if (!drawn.ok()) return finish(a, FinishReason::failed, drawn.status()), true;
  if (a.first_token_s == 0) {
    a.first_token_s = now_s();
    a.timings.prompt_s = a.first_token_s - a.start_s;
  }
  a.timings.generated_tokens++;
  a.history.push_back(drawn->token);
  a.sink->on_token(drawn->token, drawn->logprob);
  const auto& limits = a.request.limits;
  const bool stops = std::find(limits.stop_tokens.begin(), limits.stop_tokens.end(), drawn->token) != limits.stop_tokens.end();
  if (stops) return finish(a, FinishReason::stop, {}), true;
  if (limits.max_tokens > 0 && a.timings.generated_tokens >= limits.max_tokens) return finish(a, FinishReason::length, {}), true;
  if (sequence->room() == 0) return finish(a, FinishReason::context, {}), true;
  a.unread.assign(1, TokenRecord::text(drawn->token, sequence->next_position(), RowRole::generated));
  a.read = 0;
  return false;
}

bool Engine::Parts::advance(Active& a) {
  if (take_cancelled(a.id)) return finish(a, FinishReason::cancelled, {}), true;
  if (Status same = files_unchanged(); !same.ok()) return finish(a, FinishReason::failed, std::move(same)), true;
  if (!a.started) start(a);
  const auto rows = next_rows(a.rest(), sequence->length(), plan.chunk_rows);
  if (Status ran = forward->run(*sequence, rows); !ran.ok()) return finish(a, FinishReason::failed, std::move(ran)), true;
  const auto n = static_cast<int>(rows.size());
  sequence->commit(n);
  a.read += rows.size();
  if (a.timings.generated_tokens == 0) a.sink->on_prompt(a.timings.prompt_tokens - static_cast<int>(a.rest().size()), a.timings.prompt_tokens);
  if (a.rest().empty()) return deliver(a, forward->logits(n - 1, 1));
  // The last cut inside a prompt is where a follow-up that changes its end can go back to.
  const bool last_cut = static_cast<int>(a.rest().size()) <= plan.chunk_rows && sequence->length() % kCutTokens == 0;
  if (!last_cut) return false;
  Status marked = sequence->mark(kMarks);
  return marked.ok() ? false : (finish(a, FinishReason::failed, std::move(marked)), true);
}

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options, const ProgressFn& progress) {
  const auto report = [&](const char* stage, double fraction) {
    if (progress) progress({stage, fraction});
  };
  RETURN_IF_ERROR(check_device(options.device));
  auto parts = std::make_unique<Parts>();
  report("opening the model", 0.0);
  ASSIGN_OR_RETURN(parts->model, load_model(options.model_path, options.mtp_path));
  parts->facts = facts_of(*parts->model);
  report("planning memory", 0.5);
  const int threads = options.threads;
  ASSIGN_OR_RETURN(parts->plan, make_plan(read_machine(), parts->facts, options, scratch_of(options.device, std::max(1, threads))));
  parts->plan.warnings.insert(parts->plan.warnings.end(), parts->model->notes.begin(), parts->model->notes.end());
  report("allocating", 0.8);
  parts->device = make_device(options.device, parts->plan.threads);
  RETURN_IF_ERROR(parts->allocate());
  report("ready", 1.0);
  return std::unique_ptr<Engine>(new Engine(std::move(parts)));
}

Result<RequestId> Engine::submit(Request request, Sink& sink) {
  Parts& p = *parts_;
  const int vocab = p.model->config.vocab;
  if (request.prompt.empty()) return Status(Code::invalid_argument, "the prompt is empty", "give at least one token");
  for (const TokenId t : request.prompt) {
    if (t.v < 0 || t.v >= vocab) {
      return Status(Code::invalid_argument, fmt::format("token id {} in the prompt", t.v), fmt::format("the vocabulary has ids 0 to {}", vocab - 1));
    }
  }
  if (request.prompt.size() >= static_cast<size_t>(p.plan.max_context)) {
    return Status(Code::out_of_range,
                  fmt::format("the prompt has {} tokens, the context holds {} and must leave room for an answer", request.prompt.size(),
                              p.plan.max_context),
                  p.plan.max_context < p.model->config.context_length ? "shorten it or raise --max-context" : "shorten it");
  }
  if (request.limits.max_tokens < 0) return Status(Code::invalid_argument, fmt::format("max_tokens is {}", request.limits.max_tokens), "0 or more");
  RETURN_IF_ERROR(check_params(request.sample, vocab));
  RETURN_IF_ERROR(p.files_unchanged());
  const RequestId id = p.next_id++;
  Active& a = p.queue.emplace_back();
  a.id = id, a.request = std::move(request), a.sink = &sink;
  return id;
}

bool Engine::step() {
  Parts& p = *parts_;
  if (p.queue.empty()) return false;
  if (p.advance(p.queue.front())) p.queue.pop_front();
  return !p.queue.empty();
}

void Engine::cancel(RequestId id) {
  const std::lock_guard lock(parts_->cancel_mutex);
  parts_->cancelled.insert(id);
}

Result<std::vector<float>> Engine::score(std::span<const TokenId> tokens, const std::function<void(int)>& on_progress) {
  Parts& p = *parts_;
  const int vocab = p.model->config.vocab;
  if (tokens.size() > static_cast<size_t>(p.plan.max_context)) {
    return Status(Code::out_of_range, fmt::format("{} tokens in a context of {}", tokens.size(), p.plan.max_context));
  }
  for (const TokenId t : tokens) {
    if (t.v < 0 || t.v >= vocab) return Status(Code::invalid_argument, fmt::format("token id {} of {}", t.v, vocab));
  }
  CHECK(p.queue.empty(), "score while requests run");
  p.sequence->clear();
  std::vector<TokenRecord> records;
  for (size_t i = 0; i < tokens.size(); ++i) records.push_back(TokenRecord::text(tokens[i], static_cast<int>(i), RowRole::prompt));
  std::vector<float> nll;
  for (size_t at = 0; at < records.size();) {
    RETURN_IF_ERROR(p.files_unchanged());
    const auto rows = next_rows(std::span<const TokenRecord>(records).subspan(at), p.sequence->length(), p.plan.chunk_rows);
    RETURN_IF_ERROR(p.forward->run(*p.sequence, rows));
    p.sequence->commit(static_cast<int>(rows.size()));
    for (size_t r = 0; r < rows.size(); r += kLogitRows) {
      const auto n = static_cast<int>(std::min<size_t>(kLogitRows, rows.size() - r));
      const MatF32 logits = p.forward->logits(static_cast<int>(r), n);
      for (int i = 0; i < n; ++i) {
        const size_t next = at + r + static_cast<size_t>(i) + 1;
        if (next >= tokens.size()) break;
        ASSIGN_OR_RETURN(const float lp, logprob_of({logits.row(i), static_cast<size_t>(vocab)}, tokens[next]));
        nll.push_back(-lp);
      }
    }
    at += rows.size();
    if (on_progress) on_progress(static_cast<int>(at));
  }
  return nll;
}

const Plan& Engine::plan() const { return parts_->plan; }
const ModelFacts& Engine::facts() const { return parts_->facts; }
const char* Engine::device() const { return parts_->device.ops->name(); }

Result<Inspection> inspect_model(const EngineOptions& options, const Machine& machine) {
  RETURN_IF_ERROR(check_device(options.device));
  ASSIGN_OR_RETURN(const auto model, load_model(options.model_path, options.mtp_path));
  const ModelFacts facts = facts_of(*model);
  return Inspection{facts, model->notes, make_plan(machine, facts, options, scratch_of(options.device, std::max(1, options.threads)))};
}

}  // namespace strata
