// strata eval: perplexity of a text of any size. The text is mapped, tokenized piece by piece and forgotten again.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/plan_text.h"
#include "cli/text_pieces.h"
#include "engine/engine.h"
#include "os/console.h"
#include "os/file.h"

namespace strata {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

// Sums from which mean and spread follow.
struct Scores {
  uint64_t n = 0, windows = 0;
  double sum = 0, squares = 0;

  void add(std::span<const float> nll) {
    for (const float x : nll) {
      sum += x;
      squares += static_cast<double>(x) * x;
    }
    n += nll.size();
    ++windows;
  }
  double mean() const { return sum / static_cast<double>(n); }
  double error() const {
    const double variance = n > 1 ? std::max(0.0, squares - sum * mean()) / static_cast<double>(n - 1) : 0;
    return std::sqrt(variance / static_cast<double>(n));
  }
  double perplexity() const { return std::exp(mean()); }
  double perplexity_error() const { return perplexity() * error(); }
};

class Evaluation {
 public:
  Evaluation(Engine& engine, size_t window, size_t text_bytes, Log& log)
      : engine_(engine), window_(window), text_bytes_(text_bytes), log_(log), start_s_(log.now_s()) {}

  // Tokens of the next piece, which ends at byte `end` of the text; last: nothing follows.
  Status add(const std::vector<TokenId>& tokens, size_t end, bool last) {
    waiting_.insert(waiting_.end(), tokens.begin(), tokens.end());
    const size_t begin_bytes = read_bytes_, piece_tokens = waiting_.size();
    size_t at = 0;
    while (waiting_.size() - at >= window_ || (last && waiting_.size() - at >= 2)) {
      const size_t n = std::min(window_, waiting_.size() - at);
      const auto report = [&](int done) {
        const double part = static_cast<double>(at + static_cast<size_t>(done)) / static_cast<double>(piece_tokens);
        show(begin_bytes + static_cast<size_t>(part * static_cast<double>(end - begin_bytes)),
             static_cast<size_t>(done));
      };
      ASSIGN_OR_RETURN(const std::vector<float> nll, engine_.score(std::span(waiting_).subspan(at, n), report));
      scores.add(nll);
      read_tokens += n;
      at += n;
      if (interrupted())
        return {Code::cancelled, fmt::format("interrupted after {}, perplexity {:.4g} so far",
                                             plural(read_tokens, "token"), scores.perplexity())};
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    read_bytes_ = end;
    return {};
  }

  double elapsed_s() const { return log_.now_s() - start_s_; }

  Scores scores;
  uint64_t read_tokens = 0;

 private:
  void show(size_t bytes, size_t of_window) {
    std::string extra = format_rate(static_cast<double>(read_tokens + of_window) / elapsed_s(), "tok/s");
    if (scores.n > 0) extra += fmt::format(", perplexity {:.4g} so far", scores.perplexity());
    log_.progress({"scoring", bytes, text_bytes_, "byte", elapsed_s(), extra});
  }

  Engine& engine_;
  size_t window_;
  size_t text_bytes_;
  Log& log_;
  double start_s_;
  std::vector<TokenId> waiting_;  // not scored yet, fewer than a window between calls
  size_t read_bytes_ = 0;
};

// A text that is mapped, or, from standard input, held.
struct Text {
  std::unique_ptr<MappedFile> file;
  std::string held;

  std::string_view view() const {
    if (!file) return held;
    return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
  }
  void forget(size_t begin, size_t end) const {
    if (file) file->advise(begin, end - begin, Access::not_needed);
  }
};

Result<Text> open_text(const std::string& path) {
  Text text;
  if (path != "-") {
    Result<std::unique_ptr<MappedFile>> file = MappedFile::open(path);
    if (!file.ok()) return about_file(file.status());
    text.file = std::move(*file);
    text.file->advise(0, text.view().size(), Access::sequential);
    return text;
  }
  ASSIGN_OR_RETURN(text.held, read_whole("-", kInputBytesMax));
  if (text.held.empty())
    return Status(Code::invalid_argument, "the text is empty (read from standard input)",
                  "send a text through the pipe, or name a file");
  return text;
}

std::string as_json(const Evaluation& e, const Engine& engine, const std::string& model, size_t window,
                    double elapsed_s) {
  Json out;
  out["perplexity"] = e.scores.perplexity();
  out["standard_error"] = e.scores.perplexity_error();
  out["mean_nll"] = e.scores.mean();
  out["nll_standard_error"] = e.scores.error();
  out["scored_tokens"] = e.scores.n;
  out["read_tokens"] = e.read_tokens;
  out["windows"] = e.scores.windows;
  out["context"] = window;
  out["seconds"] = elapsed_s;
  out["model"] = model;
  out["device"] = engine.device();
  out["isa"] = engine.isa();
  out["plan"] = plan_json(engine.plan());
  return dump_python_style(out) + "\n";
}

// The engine speaks of --max-context, which here is --context.
Status in_words_of_eval(const Status& status) {
  const auto say = [](std::string text) {
    const std::string word = "--max-context";
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;) text.replace(at, word.size(), "--context");
    return text;
  };
  return {status.code(), say(status.message()), say(status.hint())};
}

}  // namespace

Status eval_command(CommandContext& context) {
  const Options& options = context.options;
  Log& log = context.log;
  ASSIGN_OR_RETURN(const Text text, open_text(options.text("text")));
  ASSIGN_OR_RETURN(const std::string path, model_path(options.text("model")));
  ASSIGN_OR_RETURN(const Gguf file, open_model_file(path));
  ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::open(file));
  const auto window = static_cast<size_t>(options.integer("context"));
  EngineOptions engine_settings = engine_options(options, path);
  engine_settings.isa = options.text("isa");
  engine_settings.max_context = static_cast<int>(window);
  Result<std::unique_ptr<Engine>> opened = Engine::open(engine_settings, {});
  if (!opened.ok()) return in_words_of_eval(opened.status());
  const std::unique_ptr<Engine> engine = std::move(*opened);
  catch_interrupts();
  log_plan(engine->plan(), file.file_name(), engine->device(), log);

  const std::string_view all = text.view();
  Evaluation evaluation(*engine, window, all.size(), log);
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = begin + first_piece(all.substr(begin), kPieceBytes);
    const std::vector<TokenId> tokens = tokenizer.encode(all.substr(begin, end - begin), Special::plain);
    text.forget(begin, end);
    RETURN_IF_ERROR(evaluation.add(tokens, end, end == all.size()));
    begin = end;
  }
  log.end_progress();
  const double elapsed_s = evaluation.elapsed_s();
  const Scores& scores = evaluation.scores;
  if (scores.n == 0)
    return {Code::invalid_argument, options.text("text") + ": fewer than two tokens, so nothing can be scored"};
  log.info(fmt::format("{} read in {}, {}", plural(evaluation.read_tokens, "token"), format_duration(elapsed_s),
                       format_rate(static_cast<double>(evaluation.read_tokens) / elapsed_s, "tok/s")));
  if (options.flag("json"))
    return write_stream(Stream::out, as_json(evaluation, *engine, file.file_name(), window, elapsed_s));
  return write_stream(
      Stream::out, fmt::format("perplexity {:.4f} +- {:.4f} ({} scored in {} of up to {})\n", scores.perplexity(),
                               scores.perplexity_error(), plural(scores.n, "token"), plural(scores.windows, "window"),
                               plural(window, "token")));
}

}  // namespace strata
