#include "text/chat_messages.h"

namespace strata {
namespace {

Status bad(const std::string& where, const std::string& what, std::string hint = {}) {
  return Status(Code::invalid_argument, where + ": " + what, std::move(hint));
}

const char* type_of(const Json& v) {
  return v.is_null() ? "null" : v.type_name();
}

const Json* find(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() ? nullptr : &*at;
}

bool is_image(const std::string& type) {
  return type == "image" || type == "image_url";
}

Status check_part(const Json& part, const std::string& where, bool images_allowed, bool& has_image) {
  if (!part.is_object()) return bad(where, fmt::format("expected an object, found {}", type_of(part)));
  const Json* type = find(part, "type");
  if (type == nullptr || !type->is_string()) return bad(where + ".type", "expected a string");
  const auto& name = type->get_ref<const std::string&>();
  if (name == "text") {
    const Json* text = find(part, "text");
    if (text == nullptr || !text->is_string()) return bad(where + ".text", "expected a string");
    return {};
  }
  if (!is_image(name) || !images_allowed)
    return bad(where + ".type", fmt::format("'{}' cannot be read here", name),
               images_allowed ? "use text or image_url" : "use text");
  has_image = true;
  return {};
}

Result<Json> normal_content(const Json* content, const std::string& where, bool images_allowed) {
  if (content == nullptr || content->is_null()) return Json("");
  if (content->is_string()) return *content;
  if (!content->is_array())
    return bad(where, fmt::format("expected a string or a list of parts, found {}", type_of(*content)));
  bool has_image = false;
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    RETURN_IF_ERROR(check_part(part, fmt::format("{}[{}]", where, i), images_allowed, has_image));
    if (!has_image) text += part["text"].get_ref<const std::string&>();
  }
  return has_image ? *content : Json(std::move(text));
}

Status normal_arguments(Json& function, const std::string& where) {
  Json& arguments = function["arguments"];
  if (arguments.is_string()) {
    const std::string text = arguments.get<std::string>();
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
      arguments = Json::object();
    } else {
      ASSIGN_OR_RETURN(arguments, parse_json(text, where));
    }
  }
  if (arguments.is_null()) arguments = Json::object();
  if (!arguments.is_object()) return bad(where, fmt::format("expected a JSON object, found {}", type_of(arguments)));
  return {};
}

Status normal_tool_calls(Json& calls, const std::string& where) {
  if (!calls.is_array()) return bad(where, fmt::format("expected a list, found {}", type_of(calls)));
  for (size_t i = 0; i < calls.size(); ++i) {
    std::string at = fmt::format("{}[{}]", where, i);
    Json& call = calls[i];
    if (!call.is_object()) return bad(at, fmt::format("expected an object, found {}", type_of(call)));
    const bool wrapped = call.contains("function");
    if (wrapped) at += ".function";
    Json& function = wrapped ? call["function"] : call;
    if (!function.is_object()) return bad(at, fmt::format("expected an object, found {}", type_of(function)));
    const Json* name = find(function, "name");
    if (name == nullptr || !name->is_string() || name->get_ref<const std::string&>().empty())
      return bad(at + ".name", "expected the name of a function");
    RETURN_IF_ERROR(normal_arguments(function, at + ".arguments"));
  }
  return {};
}

Status normal_message(Json& message, const std::string& where, bool allow_images) {
  if (!message.is_object()) return bad(where, fmt::format("expected an object, found {}", type_of(message)));
  const Json* role = find(message, "role");
  if (role == nullptr) return bad(where + ".role", "missing", "use system, user, assistant or tool");
  if (!role->is_string() || role->get_ref<const std::string&>().empty())
    return bad(where + ".role",
               fmt::format("expected a role, found {}", role->is_string() ? "an empty string" : type_of(*role)));
  if (*role == "developer") message["role"] = "system";
  const std::string name = message["role"];
  if (!message.contains("content") && (name == "user" || name == "system")) return bad(where + ".content", "missing");
  if (const Json* reasoning = find(message, "reasoning_content");
      reasoning != nullptr && !reasoning->is_string() && !reasoning->is_null())
    return bad(where + ".reasoning_content", fmt::format("expected a string, found {}", type_of(*reasoning)));
  ASSIGN_OR_RETURN(message["content"],
                   normal_content(find(message, "content"), where + ".content", allow_images && name != "system"));
  if (const Json* calls = find(message, "tool_calls"); calls != nullptr && !calls->is_null())
    return normal_tool_calls(message["tool_calls"], where + ".tool_calls");
  message.erase("tool_calls");
  return {};
}

}  // namespace

Result<Json> normal_messages(const Json& messages, bool allow_images) {
  if (messages.is_null()) return bad("messages", "missing");
  if (!messages.is_array()) return bad("messages", fmt::format("expected a list, found {}", type_of(messages)));
  if (messages.empty()) return bad("messages", "must not be empty");
  Json out = messages;
  for (size_t i = 0; i < out.size(); ++i)
    RETURN_IF_ERROR(normal_message(out[i], fmt::format("messages[{}]", i), allow_images));
  return out;
}

Result<Json> normal_tools(const Json& tools) {
  if (tools.is_null()) return Json();
  if (!tools.is_array()) return bad("tools", fmt::format("expected a list, found {}", type_of(tools)));
  for (size_t i = 0; i < tools.size(); ++i)
    if (!tools[i].is_object())
      return bad(fmt::format("tools[{}]", i), fmt::format("expected an object, found {}", type_of(tools[i])));
  return tools.empty() ? Json() : tools;
}

std::optional<Json> later_system_as_user(const Json& messages) {
  std::optional<Json> out;
  for (size_t i = 1; i < messages.size(); ++i) {
    if (messages[i]["role"] != "system") continue;
    if (!out) out = messages;
    (*out)[i]["role"] = "user";
  }
  return out;
}

}  // namespace strata
