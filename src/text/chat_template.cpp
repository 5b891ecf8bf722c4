#include "text/chat_template.h"

#include <utility>

#include "text/chat_messages.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace strata {
namespace {

// Last one wins, as in a dict.
void set(std::vector<jinja::Input>& inputs, std::string name, Json value) {
  for (jinja::Input& input : inputs)
    if (input.name == name) {
      input = {std::move(name), std::move(value), false};
      return;
    }
  inputs.push_back({std::move(name), std::move(value), false});
}

Status apply_effort(std::vector<jinja::Input>& inputs, const std::string& effort) {
  ASSIGN_OR_RETURN(const ThinkingChoice choice, thinking_choice(effort));
  if (choice.enable_thinking) set(inputs, "enable_thinking", *choice.enable_thinking);
  if (choice.effort) set(inputs, "reasoning_effort", *choice.effort);
  return {};
}

Status add_extra(std::vector<jinja::Input>& inputs, const Json& extra) {
  if (extra.is_null()) return {};
  if (!extra.is_object())
    return Status(Code::invalid_argument,
                  fmt::format("chat_template_kwargs: expected an object, found {}", extra.type_name()));
  for (const auto& [name, value] : extra.items()) {
    if (name == "messages" || name == "tools")
      return Status(Code::invalid_argument,
                    fmt::format("chat_template_kwargs.{}: the request has its own field for it", name));
    if (name == "reasoning_effort" && value.is_string()) {
      if (Status s = apply_effort(inputs, value.get<std::string>()); !s.ok()) return s.within("chat_template_kwargs");
    } else if (name != "reasoning_effort" || !value.is_null()) {
      inputs.push_back({name, value, false});
    }
  }
  return {};
}

// The variables that the template sees, apart from the messages.
Result<std::vector<jinja::Input>> variables(const ChatRequest& request) {
  std::vector<jinja::Input> out;
  out.push_back({"add_generation_prompt", request.add_generation_prompt, false});
  RETURN_IF_ERROR(add_extra(out, request.extra));
  if (request.enable_thinking) set(out, "enable_thinking", *request.enable_thinking);
  if (request.preserve_thinking) set(out, "preserve_thinking", *request.preserve_thinking);
  if (request.reasoning_effort) RETURN_IF_ERROR(apply_effort(out, *request.reasoning_effort));
  ASSIGN_OR_RETURN(Json tools, normal_tools(request.tools));
  set(out, "tools", std::move(tools));
  return out;
}

}  // namespace

std::string RenderedPrompt::text() const {
  std::string out;
  for (const TextPiece& piece : pieces) out += piece.text;
  return out;
}

Result<ThinkingChoice> thinking_choice(const std::string& effort) {
  ThinkingChoice out;
  if (effort == "none" || effort == "minimal" || effort == "off")
    out.enable_thinking = false;
  else if (effort == "low" || effort == "medium")
    out.effort = effort;
  else if (effort == "high" || effort == "max" || effort == "xhigh")
    out.effort = "xhigh";
  else
    return Status(Code::invalid_argument, fmt::format("reasoning_effort: '{}' is not an effort", effort),
                  "use none, minimal, off, low, medium, high, max or xhigh");
  return out;
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string_view name) {
  ASSIGN_OR_RETURN(jinja::Template parsed, jinja::parse_template(source, name, {}));
  ChatTemplate out;
  out.template_ = std::make_shared<const jinja::Template>(std::move(parsed));
  return out;
}

Result<RenderedPrompt> ChatTemplate::render(const ChatRequest& request) const {
  ASSIGN_OR_RETURN(const Json messages, normal_messages(request.messages, request.allow_images));
  ASSIGN_OR_RETURN(std::vector<jinja::Input> inputs, variables(request));
  for (const Constant& constant : constants_) inputs.push_back({constant.name, constant.text, true});
  const auto attempt = [&](const Json& with) {
    inputs.push_back({"messages", with, false});
    jinja::Outcome outcome = jinja::render(*template_, inputs, request.now, {});
    inputs.pop_back();
    return outcome;
  };
  jinja::Outcome outcome = attempt(messages);
  if (outcome.refused) {
    if (const auto other = later_system_as_user(messages)) {
      jinja::Outcome second = attempt(*other);
      if (second.status.ok()) outcome = std::move(second);
    }
  }
  if (!outcome.status.ok()) return outcome.status;
  return RenderedPrompt{outcome.text.pieces()};
}

}  // namespace strata
