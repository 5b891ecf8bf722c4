#include "cli/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "os/console.h"
#include "os/file.h"

namespace strata {
namespace {

constexpr const char* kBundled = "flash-next-nano-IQ3_XXS.gguf";
constexpr const char* kBundledDraft = "flash-next-nano-MTP-IQ4_NL.gguf";

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

// A token that the file names by its id, as text for templates.
std::string token_text(const Gguf& file, const char* key) {
  const Result<uint64_t> id = file.get_u64(key);
  const Result<std::vector<std::string_view>> tokens = file.get_string_array("tokenizer.ggml.tokens");
  return id.ok() && tokens.ok() && *id < tokens->size() ? std::string((*tokens)[*id]) : "";
}

Status wrong_member(const std::string& what, const char* member, const char* expected, const Json& found) {
  return {Code::invalid_argument, fmt::format("{}: {} is {}, expected {}", what, member, found.type_name(), expected)};
}

Status read_bool(const Json& request, const char* member, const std::string& what, std::optional<bool>& out) {
  const auto at = request.find(member);
  if (at == request.end() || at->is_null()) return {};
  if (!at->is_boolean()) return wrong_member(what, member, "true or false", *at);
  out = at->get<bool>();
  return {};
}

}  // namespace

Status not_both(const Options& options, const char* a, const char* b) {
  if (!options.given(a) || !options.given(b)) return {};
  return {Code::invalid_argument, fmt::format("--{} and --{} cannot be used together", a, b),
          fmt::format("see strata {} --help", options.command().name)};
}

Result<std::string> model_path(const std::string& named) {
  if (!named.empty()) return named;
  if (std::string set = model_from_environment(); !set.empty()) return set;
  const std::string program = directory_of_executable();
  std::vector<std::string> folders = {"models"};
  if (!program.empty())
    folders.insert(folders.begin(), {program + "/../../models", program + "/../share/strata/models"});
  std::string looked;
  for (const std::string& folder : folders) {
    const std::string path = std::filesystem::path(folder + "/" + kBundled).lexically_normal().string();
    if (is_file(path)) return path;
    looked += (looked.empty() ? "" : ", ") + path;
  }
  return Status(Code::not_found,
                fmt::format("no model was named, and the bundled one is not in its places ({})", looked),
                "name a GGUF file (see --help), or set STRATA_MODEL");
}

Status about_file(const Status& status) {
  return exit_code_of(status.code()) == ExitCode::usage ? Status(Code::unsupported, status.message(), status.hint())
                                                        : status;
}

Result<Gguf> open_model_file(const std::string& path) {
  Result<Gguf> file = Gguf::open(path);
  if (!file.ok()) return about_file(file.status());
  return file;
}

Result<std::string> text_argument(const Options& options, const std::string& what) {
  const CommandSpec& command = options.command();
  const bool from_input = options.arguments().empty() || options.arguments().front() == "-";
  std::string text;
  if (!from_input) {
    text = options.arguments().front();
  } else {
    if (options.arguments().empty() && is_terminal(Stream::in)) {
      return Status(Code::invalid_argument, fmt::format("there is no {}", what),
                    fmt::format("give it in quotes, strata {} \"...\", or through a pipe", command.name));
    }
    Result<std::string> read = read_whole("-", kInputBytesMax);
    if (!read.ok())
      return Status(read.status().code(), read.status().message(),
                    fmt::format("give the {} in quotes or through a pipe", what));
    text = std::move(*read);
  }
  if (text.empty())
    return Status(Code::invalid_argument,
                  fmt::format("the {} is empty{}", what, from_input ? " (read from standard input)" : ""),
                  fmt::format("write the {} in quotes, or send it through a pipe", what));
  return text;
}

Result<std::vector<TokenId>> parse_ids(const std::string& text, int32_t vocab, const std::string& what) {
  constexpr const char* kDividers = ", \t\r\n";
  std::vector<TokenId> ids;
  for (size_t i = text.find_first_not_of(kDividers); i != std::string::npos; i = text.find_first_not_of(kDividers, i)) {
    const size_t end = std::min(text.find_first_of(kDividers, i), text.size());
    const auto id = parse_integer(text.substr(i, end - i), 0, vocab - 1, what);
    if (!id.ok()) {
      return Status(id.status().code(), id.status().message(), "strata tokenize shows the ids of a text");
    }
    ids.emplace_back(static_cast<int32_t>(*id));
    i = end;
  }
  if (ids.empty())
    return Status(Code::invalid_argument, what + ": no token id", "write numbers divided by commas or blanks");
  return ids;
}

EngineOptions engine_options(const Options& options, const std::string& path) {
  EngineOptions engine;
  engine.model_path = path;
  engine.device = options.text("device");
  engine.kv = options.text("kv");
  if (options.given("threads")) engine.threads = static_cast<int>(options.integer("threads"));
  if (options.given("chunk-rows")) engine.chunk_rows = static_cast<int>(options.integer("chunk-rows"));
  return engine;
}

Result<ChatTemplate> open_template(const Gguf& file, const std::string& template_path) {
  std::string source, name = "the chat template of " + file.file_name();
  if (!template_path.empty()) {
    ASSIGN_OR_RETURN(source, read_whole(template_path, kInputBytesMax));
    name = template_path;
  } else {
    if (file.find("tokenizer.chat_template") == nullptr) {
      return Status(Code::unsupported, file.file_name() + " has no chat template (tokenizer.chat_template)",
                    "use --raw to continue plain text");
    }
    ASSIGN_OR_RETURN(source, file.get_string("tokenizer.chat_template"));
  }
  ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::parse(source, name));
  chat.define("bos_token", token_text(file, "tokenizer.ggml.bos_token_id"));
  chat.define("eos_token", token_text(file, "tokenizer.ggml.eos_token_id"));
  return chat;
}

Result<ChatRequest> chat_request(const Json& request, const std::string& what) {
  if (!request.is_object() || !request.contains("messages")) {
    return Status(Code::invalid_argument, fmt::format("{}: expected a JSON object with messages", what),
                  R"(for example {"messages": [{"role": "user", "content": "Hello"}]})");
  }
  ChatRequest chat;
  chat.messages = request["messages"];
  if (request.contains("tools")) chat.tools = request["tools"];
  std::optional<bool> add_generation_prompt;
  RETURN_IF_ERROR(read_bool(request, "add_generation_prompt", what, add_generation_prompt));
  chat.add_generation_prompt = add_generation_prompt.value_or(true);
  RETURN_IF_ERROR(read_bool(request, "enable_thinking", what, chat.enable_thinking));
  RETURN_IF_ERROR(read_bool(request, "preserve_thinking", what, chat.preserve_thinking));
  if (const auto effort = request.find("reasoning_effort"); effort != request.end() && !effort->is_null()) {
    if (!effort->is_string()) return wrong_member(what, "reasoning_effort", "a string", *effort);
    chat.reasoning_effort = effort->get<std::string>();
  }
  if (const auto extra = request.find("chat_template_kwargs"); extra != request.end() && !extra->is_null()) {
    if (!extra->is_object()) return wrong_member(what, "chat_template_kwargs", "an object", *extra);
    chat.extra = *extra;
  }
  return chat;
}

}  // namespace strata
