#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "base/hash.h"
#include "engine/device_choice.h"
#include "engine/forward.h"
#include "engine/routing.h"
#include "engine/scheduler.h"
#include "engine/speculative.h"
#include "experts/store.h"
#include "model/weights.h"
#include "state/sequence.h"

namespace strata {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

uint64_t hash_logits(MatF32 row) {
  Hash64 hash;
  hash.add(row.data, static_cast<size_t>(row.cols) * sizeof(float));
  return hash.value();
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
  std::vector<TokenRecord> unread;  // rows not computed yet, in order
  size_t read = 0;                  // of unread
  std::vector<TokenId> history;     // prompt and answer
  uint64_t logits_hash = 0;
  double start_s = 0, first_token_s = 0;
  Timings timings;
  DraftPolicy drafts{0};

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
  std::unique_ptr<Drafter> drafter;           // null without a draft head
  std::unique_ptr<RoutingRecorder> recorder;  // null unless a trace is wanted
  std::unique_ptr<RoutingReplay> replay;      // null unless a trace decides
  int max_drafts = 0;
  bool tainted = false;  // a failed request may have left values that must not be reused

  std::deque<Active> queue;
  std::mutex cancel_mutex;  // of what follows
  RequestId next_id = 1;
  std::unordered_set<RequestId> live, cancelled;

  Status allocate();
  Status open_routing(const EngineOptions& options);
  int most_drafts(const Active& a) const;
  Status files_unchanged() const;
  RequestId new_id();
  // Ends every request that was cancelled, running or waiting.
  void end_cancelled();
  void start(Active& a);
  void finish(Active& a, FinishReason reason, Status status);
  // One step of a request; true when it has ended.
  bool advance(Active& a);
  bool read_prompt(Active& a);
  bool generate(Active& a);
  // Draws the token at `position` from a row of logits and hands it over; nothing when the request has ended by it.
  std::optional<TokenId> deliver(Active& a, MatF32 logits, Pos position);
  bool fail(Active& a, Status status) { return finish(a, FinishReason::failed, std::move(status)), true; }
};

Status Engine::Parts::allocate() {
  store = std::make_unique<Store>(model);
  for (const Block& b : model->blocks) {
    if (b.config.mixer == Mixer::delta_net) gdn_weights.push_back(&b.gdn);
  }
  Ops& ops = *device.ops;
  ASSIGN_OR_RETURN(pages, PagePool::create(ops.memory(), kv_geometry(model->config, plan.kv), plan.n_pages));
  ASSIGN_OR_RETURN(sequence,
                   Sequence::create(*pages, running_geometry(model->config), {plan.max_context, plan.chunk_rows},
                                    [this](SequenceView& view) { device.ops->settle(gdn_weights, view); }));
  ASSIGN_OR_RETURN(forward, Forward::create(ops, model, *store, plan));
  if (forward->has_draft_head()) drafter = std::make_unique<Drafter>(*forward, *sequence);
  return {};
}

Status Engine::Parts::open_routing(const EngineOptions& options) {
  if (options.trace_routing.empty() && options.replay_routing.empty()) return {};
  ASSIGN_OR_RETURN(const RoutingGeometry geometry, RoutingGeometry::of(model->config));
  if (!options.replay_routing.empty()) {
    ASSIGN_OR_RETURN(replay, RoutingReplay::open(options.replay_routing, geometry));
    forward->set_routing(replay.get());
    return {};
  }
  ASSIGN_OR_RETURN(recorder,
                   RoutingRecorder::create(device.ops->memory(), geometry, plan.max_context, options.trace_routing));
  forward->set_routing(recorder.get());
  return {};
}

Status Engine::Parts::files_unchanged() const {
  RETURN_IF_ERROR(model->file->unchanged());
  return model->draft_file ? model->draft_file->unchanged() : Status();
}

RequestId Engine::Parts::new_id() {
  const std::lock_guard lock(cancel_mutex);
  live.insert(next_id);
  return next_id++;
}

void Engine::Parts::end_cancelled() {
  std::unordered_set<RequestId> gone;
  {
    const std::lock_guard lock(cancel_mutex);
    gone.swap(cancelled);
  }
  for (size_t i = 0; i < queue.size() && !gone.empty();) {
    if (gone.erase(queue[i].id) == 0) {
      ++i;
      continue;
    }
    Active ended = std::move(queue[i]);  // out of the queue first: a sink may submit the next request
    queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
    finish(ended, FinishReason::cancelled, {});
  }
}

// Goes back to where the new prompt leaves what is known, and lists what has to be read.
void Engine::Parts::start(Active& a) {
  a.started = true;
  a.start_s = now_s();
  const auto& prompt = a.request.prompt;
  const auto known = sequence->records();
  size_t same = 0;
  while (same < known.size() && same + 1 < prompt.size() && known[same].identity == text_identity(prompt[same])) ++same;
  a.unread = sequence->rewind(static_cast<Pos>(same));
  a.timings.prompt_tokens = static_cast<int>(prompt.size());
  a.timings.cached_tokens = sequence->length();
  int position = a.unread.empty() ? sequence->next_position() : a.unread.back().pos.t + 1;
  for (size_t i = same; i < prompt.size(); ++i)
    a.unread.push_back(TokenRecord::text(prompt[i], position++, RowRole::prompt));
  a.history = prompt;
  a.drafts = DraftPolicy(drafter ? max_drafts : 0);
}

void Engine::Parts::finish(Active& a, FinishReason reason, Status status) {
  a.timings.decode_s = a.first_token_s > 0 ? now_s() - a.first_token_s : 0;
  if (a.first_token_s == 0 && a.started) {  // ended inside the prompt: only what was read counts
    a.timings.prompt_s = now_s() - a.start_s;
    a.timings.prompt_tokens -= static_cast<int>(a.rest().size());
  }
  a.timings.bytes_read = facts.bytes_per_token * static_cast<uint64_t>(a.timings.steps);
  tainted = tainted || reason == FinishReason::failed;
  {
    const std::lock_guard lock(cancel_mutex);
    live.erase(a.id);
    cancelled.erase(a.id);
  }
  a.sink->on_finished({reason, std::move(status), a.timings, a.logits_hash});
}

std::optional<TokenId> Engine::Parts::deliver(Active& a, MatF32 row, Pos position) {
  a.logits_hash = hash_logits(row);
  const auto drawn = draw({row.data, static_cast<size_t>(row.cols)}, a.request.sample, a.history, position);
  if (!drawn.ok()) return finish(a, FinishReason::failed, drawn.status()), std::nullopt;
  if (a.first_token_s == 0) {
    a.first_token_s = now_s();
    a.timings.prompt_s = a.first_token_s - a.start_s;
  }
  a.timings.generated_tokens++;
  a.history.push_back(drawn->token);
  a.sink->on_token(drawn->token, drawn->logprob);
  const auto& limits = a.request.limits;
  const auto& stops = limits.stop_tokens;
  if (std::find(stops.begin(), stops.end(), drawn->token) != stops.end())
    return finish(a, FinishReason::stop, {}), std::nullopt;
  if (limits.max_tokens > 0 && a.timings.generated_tokens >= limits.max_tokens) {
    return finish(a, FinishReason::length, {}), std::nullopt;
  }
  if (position + 1 >= plan.max_context) return finish(a, FinishReason::context, {}), std::nullopt;
  return drawn->token;
}

bool Engine::Parts::read_prompt(Active& a) {
  const Pos first = sequence->length();
  const auto rows = next_rows(a.rest(), first, plan.chunk_rows);
  const auto n = static_cast<int>(rows.size());
  if (Status ran = forward->run(*sequence, rows); !ran.ok()) return fail(a, std::move(ran));
  sequence->commit(n);
  a.read += rows.size();
  const auto rest = a.rest();
  a.sink->on_prompt(a.timings.prompt_tokens - static_cast<int>(rest.size()), a.timings.prompt_tokens);
  std::optional<TokenId> drawn;
  if (rest.empty() && !(drawn = deliver(a, forward->logits(n - 1, 1), sequence->length()))) return true;
  if (drafter && !a.drafts.off()) {
    std::vector<TokenId> following;
    for (const TokenRecord& r : rows.subspan(1)) following.push_back(r.token);
    if (!rest.empty()) following.push_back(rest.front().token);
    if (Status seen = drafter->observe(first, n, following); !seen.ok()) return fail(a, std::move(seen));
  }
  if (drawn) {
    a.unread.assign(1, TokenRecord::text(*drawn, sequence->next_position(), RowRole::generated));
    a.read = 0;
    return false;
  }
  // The last cut inside a prompt is where a follow-up that changes its end can go back to.
  if (static_cast<int>(rest.size()) > plan.chunk_rows || sequence->length() % kCutTokens != 0) return false;
  // One that cannot be kept costs a later prompt time, never this one its answer.
  [[maybe_unused]] const Status marked = sequence->mark(kMarks);
  return false;
}

// How far a window may look ahead: rows that may not be kept must not be what a trace ends with.
int Engine::Parts::most_drafts(const Active& a) const {
  const int drafts = a.drafts.drafts();
  return replay ? std::clamp(replay->positions() - sequence->length() - 1, 0, drafts) : drafts;
}

// One window: the last drawn token and what the draft head proposes after it. Rows are kept as far as the draws agree.
bool Engine::Parts::generate(Active& a) {
  const double start_s = now_s();
  const Pos first = sequence->length();
  const int tokens_before = a.timings.generated_tokens;
  std::vector<TokenRecord> rows{a.rest().front()};
  if (const int drafts = most_drafts(a); drafts > 0) {
    auto proposed = drafter->propose(rows.front().token, drafts);
    if (!proposed.ok()) return fail(a, proposed.status());
    for (const TokenId t : *proposed) rows.push_back(TokenRecord::text(t, rows.back().pos.t + 1, RowRole::generated));
  }
  const auto n = static_cast<int>(rows.size());
  if (Status ran = forward->run(*sequence, rows); !ran.ok()) return fail(a, std::move(ran));
  const MatF32 logits = forward->logits(0, n);
  a.timings.steps++;
  int kept = 0;
  std::optional<TokenId> drawn;
  for (bool agreed = true; agreed && kept < n; ++kept) {
    drawn = deliver(a, logits.rows_from(kept, 1), first + kept + 1);
    agreed = drawn && kept + 1 < n && *drawn == rows[static_cast<size_t>(kept) + 1].token;
  }
  sequence->commit(kept);
  a.timings.drafted += n - 1;
  a.timings.accepted += kept - 1;
  if (!drawn) return true;
  const double window_s = now_s() - start_s;
  if (drafter && !a.drafts.off()) {
    std::vector<TokenId> following;
    for (int i = 1; i < kept; ++i) following.push_back(rows[static_cast<size_t>(i)].token);
    if (Status seen = drafter->observe(first, kept, following); !seen.ok()) return fail(a, std::move(seen));
    a.drafts.record(n - 1, a.timings.generated_tokens - tokens_before, n == 1 ? window_s : now_s() - start_s);
  }
  a.unread.assign(1, TokenRecord::text(*drawn, sequence->next_position(), RowRole::generated));
  a.read = 0;
  return false;
}

bool Engine::Parts::advance(Active& a) {
  if (Status same = files_unchanged(); !same.ok()) return fail(a, std::move(same));
  if (!a.started) start(a);
  return a.first_token_s == 0 ? read_prompt(a) : generate(a);
}

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options, const ProgressFn& progress) {
  const auto report = [&](const char* stage, double fraction) {
    if (progress) progress({stage, fraction});
  };
  RETURN_IF_ERROR(check_device(options.device, options.isa));
  auto parts = std::make_unique<Parts>();
  report("opening the model", 0.0);
  ASSIGN_OR_RETURN(parts->model, load_model(options.model_path, options.mtp_path));
  parts->facts = facts_of(*parts->model);
  report("planning memory", 0.5);
  const Machine machine = read_machine();
  const ScratchFn scratch = scratch_of(options.device, plan_threads(machine, options));
  ASSIGN_OR_RETURN(parts->plan, make_plan(machine, parts->facts, options, scratch));
  parts->plan.warnings.insert(parts->plan.warnings.end(), parts->model->notes.begin(), parts->model->notes.end());
  report("allocating", 0.8);
  parts->device = make_device(options.device, parts->plan.threads, options.isa);
  parts->max_drafts = options.max_drafts;
  if (options.device != "plain") {
    parts->plan.choices.push_back(
        fmt::format("{} kernels: {}", parts->device.ops->isa(),
                    options.isa == "auto" ? "the best that this build and this processor have" : "named by --isa"));
  }
  RETURN_IF_ERROR(parts->allocate());
  RETURN_IF_ERROR(parts->open_routing(options));
  report("ready", 1.0);
  return std::unique_ptr<Engine>(new Engine(std::move(parts)));
}

Result<RequestId> Engine::submit(Request request, Sink& sink) {
  Parts& p = *parts_;
  const int vocab = p.model->config.vocab;
  if (request.prompt.empty()) return Status(Code::invalid_argument, "the prompt is empty", "give at least one token");
  for (const TokenId t : request.prompt) {
    if (t.v < 0 || t.v >= vocab) {
      return Status(Code::invalid_argument, fmt::format("token id {} in the prompt", t.v),
                    fmt::format("the vocabulary has ids 0 to {}", vocab - 1));
    }
  }
  if (request.prompt.size() >= static_cast<size_t>(p.plan.max_context)) {
    return Status(
        Code::out_of_range,
        fmt::format("the prompt has {} tokens, the context holds {} and must leave room for an answer",
                    request.prompt.size(), p.plan.max_context),
        p.plan.max_context < p.model->config.context_length ? "shorten it or raise --max-context" : "shorten it");
  }
  if (request.limits.max_tokens < 0)
    return Status(Code::invalid_argument, fmt::format("max_tokens is {}", request.limits.max_tokens), "0 or more");
  RETURN_IF_ERROR(check_params(request.sample, vocab));
  if (p.replay) RETURN_IF_ERROR(p.replay->admit(static_cast<Pos>(request.prompt.size())));
  RETURN_IF_ERROR(p.files_unchanged());
  const RequestId id = p.new_id();
  Active& a = p.queue.emplace_back();
  a.id = id, a.request = std::move(request), a.sink = &sink;
  return id;
}

bool Engine::step() {
  Parts& p = *parts_;
  p.end_cancelled();
  if (p.queue.empty()) return false;
  if (p.advance(p.queue.front())) p.queue.pop_front();
  if (p.tainted) {
    p.sequence->clear();
    if (p.drafter) p.drafter->reset();
    p.tainted = false;
  }
  return !p.queue.empty();
}

void Engine::cancel(RequestId id) {
  const std::lock_guard lock(parts_->cancel_mutex);
  if (parts_->live.contains(id)) parts_->cancelled.insert(id);
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
  for (size_t i = 0; i < tokens.size(); ++i)
    records.push_back(TokenRecord::text(tokens[i], static_cast<int>(i), RowRole::prompt));
  std::vector<float> nll;
  for (size_t at = 0; at < records.size();) {
    RETURN_IF_ERROR(p.files_unchanged());
    const auto rows =
        next_rows(std::span<const TokenRecord>(records).subspan(at), p.sequence->length(), p.plan.chunk_rows);
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

Result<Pos> Engine::save_routing() const {
  CHECK(parts_->recorder != nullptr, "no routing was recorded");
  const Pos positions = parts_->sequence->length();
  RETURN_IF_ERROR(parts_->recorder->save(positions));
  return positions;
}

const Plan& Engine::plan() const {
  return parts_->plan;
}
const ModelFacts& Engine::facts() const {
  return parts_->facts;
}
const char* Engine::device() const {
  return parts_->device.ops->name();
}
const char* Engine::isa() const {
  return parts_->device.ops->isa();
}

Result<Inspection> inspect_model(const EngineOptions& options, const Machine& machine) {
  RETURN_IF_ERROR(check_device(options.device, options.isa));
  ASSIGN_OR_RETURN(const auto model, load_model(options.model_path, options.mtp_path));
  const ModelFacts facts = facts_of(*model);
  return Inspection{facts, model->notes,
                    make_plan(machine, facts, options, scratch_of(options.device, plan_threads(machine, options)))};
}

}  // namespace strata
