// strata tokenize: text to token ids and back, and the prompt that a chat request becomes.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/inputs.h"
#include "os/console.h"
#include "os/file.h"

namespace strata {
namespace {

struct Tokens {
  std::string text;  // decoded or rendered; "" when the ids came from plain text
  std::vector<TokenId> ids;
};

Status check_together(const Options& options) {
  RETURN_IF_ERROR(not_both(options, "decode", "chat"));
  RETURN_IF_ERROR(not_both(options, "decode", "ids"));
  RETURN_IF_ERROR(not_both(options, "decode", "special"));
  RETURN_IF_ERROR(not_both(options, "chat", "special"));
  const char* instead = options.given("decode") ? "decode" : options.given("chat") ? "chat" : nullptr;
  if (instead != nullptr && !options.arguments().empty()) {
    return {Code::invalid_argument,
            fmt::format("--{} takes no TEXT, found '{}'", instead, options.arguments().front())};
  }
  if (options.given("template") && !options.given("chat")) {
    return {Code::invalid_argument, "--template needs --chat", "see strata tokenize --help"};
  }
  return {};
}

Result<Tokens> tokens_of(const Options& options, const Gguf& file, const Tokenizer& tokenizer) {
  Tokens t;
  if (options.given("decode")) {
    ASSIGN_OR_RETURN(t.ids, parse_ids(options.text("decode"), tokenizer.vocab_size(), "option --decode"));
    t.text = tokenizer.decode_bytes(t.ids, Control::show);
  } else if (options.given("chat")) {
    const std::string path = options.text("chat");
    ASSIGN_OR_RETURN(const std::string body, read_whole(path, kInputBytesMax));
    ASSIGN_OR_RETURN(const Json json, parse_json(body, path));
    ASSIGN_OR_RETURN(const ChatRequest request, chat_request(json, path));
    ASSIGN_OR_RETURN(const ChatTemplate chat, open_template(file, options.text("template")));
    ASSIGN_OR_RETURN(const RenderedPrompt prompt, chat.render(request));
    t.text = prompt.text();
    t.ids = tokenizer.encode(prompt.pieces);
  } else {
    ASSIGN_OR_RETURN(const std::string text, text_argument(options, "text"));
    t.ids = tokenizer.encode(text, options.flag("special") ? Special::parse : Special::plain);
  }
  return t;
}

std::string as_json(const Tokens& t, const Tokenizer& tokenizer) {
  Json out;
  out["text"] = t.text.empty() ? tokenizer.decode(t.ids, Control::show) : to_valid_utf8(t.text);
  out["count"] = t.ids.size();
  out["ids"] = Json::array();
  out["pieces"] = Json::array();
  for (const TokenId id : t.ids) {
    out["ids"].push_back(id.v);
    out["pieces"].push_back(tokenizer.piece_text(id));
  }
  return dump_python_style(out) + "\n";
}

std::string id_list(const std::vector<TokenId>& ids) {
  std::string out;
  for (const TokenId id : ids) out += fmt::format("{}{}", out.empty() ? "" : " ", id.v);
  return out + "\n";
}

std::string as_text(const Tokens& t, const Tokenizer& tokenizer, const Options& options) {
  if (options.flag("ids")) return id_list(t.ids);
  if (!t.text.empty()) {
    std::string out = t.text;
    if (!out.ends_with('\n')) out += '\n';
    return options.given("chat") ? out + id_list(t.ids) : out;
  }
  std::string out;
  for (const TokenId id : t.ids) out += fmt::format("{:7}  '{}'\n", id.v, tokenizer.piece_text(id));
  return out;
}

}  // namespace

Status tokenize_command(CommandContext& context) {
  const Options& options = context.options;
  RETURN_IF_ERROR(check_together(options));
  ASSIGN_OR_RETURN(const std::string path, model_path(options.text("model")));
  ASSIGN_OR_RETURN(const Gguf file, open_model_file(path));
  ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::open(file));
  ASSIGN_OR_RETURN(const Tokens tokens, tokens_of(options, file, tokenizer));
  return write_stream(Stream::out,
                      options.flag("json") ? as_json(tokens, tokenizer) : as_text(tokens, tokenizer, options));
}

}  // namespace strata
