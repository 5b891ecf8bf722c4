// strata run: one prompt, one answer. The answer's text goes to standard output as it comes and nothing else does.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/plan_text.h"
#include "cli/sampling.h"
#include "engine/engine.h"
#include "os/console.h"
#include "os/file.h"

namespace strata {
namespace {

Status check_together(const Options& options) {
  for (const char* without_template : {"raw", "tokens"}) {
    for (const char* of_template : {"system", "think", "tools"})
      RETURN_IF_ERROR(not_both(options, without_template, of_template));
  }
  RETURN_IF_ERROR(not_both(options, "trace-routing", "replay-routing"));
  if (options.given("tokens") && !options.arguments().empty()) {
    return {Code::invalid_argument, "--tokens stands in place of PROMPT, and both are given", "leave one of them out"};
  }
  return {};
}

// What to read, before anything is known of the model: the prompt, unless it comes as token ids.
Result<std::string> prompt_of(const Options& options) {
  if (options.given("tokens")) return std::string();
  ASSIGN_OR_RETURN(std::string text, text_argument(options, "prompt"));
  const bool from_input = options.arguments().empty() || options.arguments().front() == "-";
  if (from_input && text.ends_with('\n')) text.pop_back();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos && !options.flag("raw")) {
    return Status(Code::invalid_argument, "the prompt is blank", "write what the model should answer");
  }
  return text;
}

Result<std::vector<TokenId>> tokens_of(const Options& options, const std::string& prompt, const Gguf& file,
                                       const Tokenizer& tokenizer) {
  if (options.given("tokens")) return parse_ids(options.text("tokens"), tokenizer.vocab_size(), "option --tokens");
  if (options.flag("raw")) return tokenizer.encode(prompt, Special::plain);
  ChatRequest request;
  request.messages = Json::array();
  if (options.given("system")) request.messages.push_back({{"role", "system"}, {"content", options.text("system")}});
  request.messages.push_back({{"role", "user"}, {"content", prompt}});
  if (options.given("tools")) {
    const std::string path = options.text("tools");
    ASSIGN_OR_RETURN(const std::string body, read_whole(path, kInputBytesMax));
    ASSIGN_OR_RETURN(request.tools, parse_json(body, path));
    if (!request.tools.is_array())
      return Status(Code::invalid_argument, path + ": expected a JSON array of tools", "put the tools between [ and ]");
  }
  request.enable_thinking = options.text("think") == "on";
  ASSIGN_OR_RETURN(const ChatTemplate chat, open_template(file, ""));
  ASSIGN_OR_RETURN(const RenderedPrompt rendered, chat.render(request));
  return tokenizer.encode(rendered.pieces);
}

// The marks around a model's thinking, where its vocabulary has them, and on which side of them a prompt ends.
struct Thinking {
  std::optional<TokenId> opens, closes;
  bool open = false;

  Thinking(const Tokenizer& tokenizer, const std::vector<TokenId>& prompt)
      : opens(tokenizer.find("<think>")), closes(tokenizer.find("</think>")) {
    if (!opens || !closes) return;
    for (const TokenId id : prompt) step(id);
  }
  // Follows one token; true when it was a mark.
  bool step(TokenId id) {
    const bool mark = (opens && id == *opens) || (closes && id == *closes);
    if (mark) open = id == *opens;
    return mark && opens && closes;
  }
};

// Shows the answer while it comes, or keeps it for the JSON object. What the model thinks before goes to standard
// error.
class Answer : public Sink {
 public:
  Answer(const Tokenizer& tokenizer, const Thinking& thinking, bool show, Log& log)
      : decoder_(tokenizer, Control::hide), thinking_(thinking), show_(show), log_(log), start_s_(log.now_s()) {}

  void on_prompt(int done, int total) override {
    log_.progress({"reading the prompt", static_cast<uint64_t>(done), static_cast<uint64_t>(total), "token",
                   log_.now_s() - start_s_, ""});
  }
  void on_token(TokenId token, float logprob) override {
    ids.push_back(token);
    logprobs.push_back(logprob);
    const bool was_open = thinking_.open;
    const bool mark = thinking_.step(token);
    if (mark) add(decoder_.finish(), was_open);
    if (was_open && !thinking_.open) {
      after_thinking_ = true;
      log_.end_stream();
    }
    if (!mark) add(decoder_.push(token), thinking_.open);
  }
  void on_finished(const Finished& f) override {
    add(decoder_.finish(), thinking_.open);
    if (!text.empty() && text.back() != '\n' && show_) print("\n");
    log_.end_progress();
    finished = f;
  }

  std::string text, thinking;
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
  Finished finished;
  Status output;  // of standard output

 private:
  void add(std::string piece, bool thought) {
    if (thought) {
      thinking += piece;
      if (show_ && !piece.empty()) log_.stream(piece);
      return;
    }
    // Blank lines between the thinking and the answer belong to neither.
    if (after_thinking_) piece.erase(0, std::min(piece.find_first_not_of('\n'), piece.size()));
    if (piece.empty()) return;
    after_thinking_ = false;
    text += piece;
    if (show_) print(piece);
  }
  void print(const std::string& piece) {
    log_.end_progress();
    if (output.ok()) output = write_stream(Stream::out, piece);
  }

  StreamDecoder decoder_;
  Thinking thinking_;
  bool after_thinking_ = false;
  bool show_;
  Log& log_;
  double start_s_;
};

const char* reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::context:
      return "context";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::failed:
      return "failed";
  }
  return "";
}

const char* reason_text(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "ended by the model";
    case FinishReason::length:
      return "ended by --max-tokens";
    case FinishReason::context:
      return "ended because the context is full";
    case FinishReason::cancelled:
      return "interrupted";
    case FinishReason::failed:
      return "failed";
  }
  return "";
}

void log_closing(const Finished& f, const SampleParams& sample, Log& log) {
  const Timings& t = f.timings;
  std::string line = fmt::format("prompt of {}", plural(static_cast<uint64_t>(t.prompt_tokens), "token"));
  if (t.prompt_s > 0) line += fmt::format(" at {}", format_rate(t.prompt_tokens_per_s(), "tok/s"));
  line += fmt::format("; answer of {}", plural(static_cast<uint64_t>(t.generated_tokens), "token"));
  if (t.generated_tokens > 1) {
    line += fmt::format(" at {}, {} of weights", format_rate(t.decode_tokens_per_s(), "tok/s"),
                        format_rate(t.gb_per_s(), "GB/s"));
  }
  if (t.drafted > 0) line += fmt::format("; {} of {} drafts kept", t.accepted, t.drafted);
  line += fmt::format("; {}; ", reason_text(f.reason));
  if (sample.temperature > 0) line += fmt::format("seed {}, ", sample.seed);
  line += fmt::format("logits {:016x}", f.logits_hash);
  log.info(line);
}

std::string as_json(const Answer& answer, const SampleParams& sample, const Engine& engine, const std::string& model) {
  const Finished& f = answer.finished;
  const Timings& t = f.timings;
  Json out;
  out["text"] = answer.text;
  if (!answer.thinking.empty()) out["thinking"] = answer.thinking;
  out["finish"] = reason_name(f.reason);
  out["ids"] = Json::array();
  for (const TokenId id : answer.ids) out["ids"].push_back(id.v);
  out["logprobs"] = answer.logprobs;
  out["timings"] = {{"prompt_tokens", t.prompt_tokens},
                    {"cached_tokens", t.cached_tokens},
                    {"generated_tokens", t.generated_tokens},
                    {"prompt_s", t.prompt_s},
                    {"decode_s", t.decode_s},
                    {"prompt_tokens_per_s", t.prompt_tokens_per_s()},
                    {"decode_tokens_per_s", t.decode_tokens_per_s()},
                    {"gb_per_s", t.gb_per_s()},
                    {"bytes_read", t.bytes_read},
                    {"drafted", t.drafted},
                    {"accepted", t.accepted}};
  out["logits_hash"] = fmt::format("{:016x}", f.logits_hash);
  out["sampling"] = sampling_json(sample);
  out["model"] = model;
  out["device"] = engine.device();
  out["isa"] = engine.isa();
  out["plan"] = plan_json(engine.plan());
  return dump_python_style(out) + "\n";
}

Status save_routing(const Engine& engine, const std::string& path, Log& log) {
  ASSIGN_OR_RETURN(const Pos tokens, engine.save_routing());
  log.info(fmt::format("experts of {} written to {}", plural(static_cast<uint64_t>(tokens), "token"), path));
  return {};
}

// Steps until the request has ended; an interrupt or an output that cannot be written ends it early.
void drive(Engine& engine, RequestId id, const Answer& answer) {
  bool cancelled = false, more = true;
  while (more) {
    if (!cancelled && (interrupted() || !answer.output.ok())) {
      engine.cancel(id);
      cancelled = true;
    }
    more = engine.step();
  }
}

}  // namespace

Status run_command(CommandContext& context) {
  const Options& options = context.options;
  Log& log = context.log;
  RETURN_IF_ERROR(check_together(options));
  ASSIGN_OR_RETURN(const std::string prompt, prompt_of(options));
  ASSIGN_OR_RETURN(const std::string path, model_path(options.text("model")));
  ASSIGN_OR_RETURN(const Gguf file, open_model_file(path));
  ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::open(file));
  Request request;
  ASSIGN_OR_RETURN(request.prompt, tokens_of(options, prompt, file, tokenizer));
  ASSIGN_OR_RETURN(request.sample, sample_params(options, file, tokenizer.vocab_size(), log));
  request.limits.stop_tokens = tokenizer.stop_ids();
  if (options.given("max-tokens")) request.limits.max_tokens = static_cast<int>(options.integer("max-tokens"));

  EngineOptions engine_settings = engine_options(options, path);
  engine_settings.isa = options.text("isa");
  engine_settings.max_drafts = static_cast<int>(options.integer("max-drafts"));
  engine_settings.mtp_path = options.text("mtp");
  engine_settings.trace_routing = options.text("trace-routing");
  engine_settings.replay_routing = options.text("replay-routing");
  if (options.given("max-context")) engine_settings.max_context = static_cast<int>(options.integer("max-context"));
  const double start_s = log.now_s();
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine, Engine::open(engine_settings, [&](const LoadProgress& p) {
        log.progress({p.stage, static_cast<uint64_t>(p.fraction * 100), 100, "", log.now_s() - start_s, ""});
      }));
  log.end_progress();
  catch_interrupts();
  log_plan(engine->plan(), file.file_name(), engine->device(), log);

  const SampleParams sample = request.sample;
  const bool json = options.flag("json");
  Answer answer(tokenizer, Thinking(tokenizer, request.prompt), !json, log);
  ASSIGN_OR_RETURN(const RequestId id, engine->submit(std::move(request), answer));
  drive(*engine, id, answer);

  const Finished& f = answer.finished;
  RETURN_IF_ERROR(answer.output);
  if (f.reason == FinishReason::failed) return f.status;
  if (options.given("trace-routing")) RETURN_IF_ERROR(save_routing(*engine, options.text("trace-routing"), log));
  if (json) RETURN_IF_ERROR(write_stream(Stream::out, as_json(answer, sample, *engine, file.file_name())));
  log_closing(f, sample, log);
  if (f.reason == FinishReason::context)
    log.warning("the answer is cut: the context is full; raise --max-context or shorten the prompt");
  return f.reason == FinishReason::cancelled ? Status(Code::cancelled, "interrupted") : Status();
}

}  // namespace strata
