// The chat template of a model file: from the messages of a request to the prompt, with every byte marked as the
// template's (trusted) or the request's. Owns the parsed template; rendering changes nothing and may run in many
// threads at once. Promises: rendering ends, in bounded memory, whatever template and request are; a request that
// cannot be rendered gives invalid_argument with the place in it or the template's own words; no text of the request is
// ever marked trusted. Messages are first brought to one shape (text/chat_messages.h), so clients that differ only in
// form get the same prompt.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/text_piece.h"

namespace strata {

namespace jinja {
struct Template;
}

struct RenderedPrompt {
  std::vector<TextPiece> pieces;
  std::string text() const;
};

struct ChatRequest {
  Json messages;
  Json tools;                                   // null when none
  bool add_generation_prompt = true;            // end with the opening of the assistant's turn
  std::optional<bool> enable_thinking;          // absent: the template's default
  std::optional<std::string> reasoning_effort;  // none, minimal, off | low | medium | high, max, xhigh
  std::optional<bool> preserve_thinking;        // keep the reasoning of earlier turns; absent: the template's default
  Json extra;                                   // chat_template_kwargs: more variables; the fields above go first
  bool allow_images = false;                    // whether image parts may stand in messages
  std::optional<std::tm> now;                   // local time for templates that print the date
};

// What a reasoning effort means to templates of this family.
struct ThinkingChoice {
  std::optional<bool> enable_thinking;  // false for none, minimal and off
  std::optional<std::string> effort;    // low, medium or xhigh
};
Result<ThinkingChoice> thinking_choice(const std::string& reasoning_effort);

class ChatTemplate {
 public:
  // name: says in errors which template it is, e.g. "chat template".
  static Result<ChatTemplate> parse(std::string_view source, std::string_view name);

  // A text of the model file that the template may print, such as bos_token; trusted.
  void define(std::string name, std::string text) { constants_.push_back({std::move(name), std::move(text)}); }

  // A later system message stays where it is. Where the template refuses it, it is rendered as a user message there.
  Result<RenderedPrompt> render(const ChatRequest& request) const;

 private:
  struct Constant {
    std::string name, text;
  };
  std::shared_ptr<const jinja::Template> template_;
  std::vector<Constant> constants_;
};

}  // namespace strata
