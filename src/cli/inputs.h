// What several commands take from the user: a model, a prompt, lists of ids, settings of the engine, chat requests.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options.h"
#include "base/result.h"
#include "engine/memory_plan.h"
#include "tensor/gguf.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace strata {

inline constexpr size_t kInputBytesMax = size_t{64} << 20;  // of a prompt or a request

// Two options of which only one makes sense.
Status not_both(const Options& options, const char* a, const char* b);

// `named`, else $STRATA_MODEL, else the bundled model, found from where the program lies; says where it looked.
Result<std::string> model_path(const std::string& named);

// A file that cannot be used as it is, also where its kind is the reason: exit code 3, not 2.
Status about_file(const Status& status);
Result<Gguf> open_model_file(const std::string& path);

// The argument of the command, or standard input when there is none or it is "-". what: "prompt", "text".
Result<std::string> text_argument(const Options& options, const std::string& what);

// "1, 2 3": commas and blanks divide. At least one; each in the vocabulary.
Result<std::vector<TokenId>> parse_ids(const std::string& text, int32_t vocab, const std::string& what);

// The options that all commands with an engine have.
EngineOptions engine_options(const Options& options, const std::string& path);

// The template of the file, or of template_path when that is not "".
Result<ChatTemplate> open_template(const Gguf& file, const std::string& template_path);

// The members of a chat request that shape its prompt; those of the API that do not are passed over.
Result<ChatRequest> chat_request(const Json& request, const std::string& what);

}  // namespace strata
