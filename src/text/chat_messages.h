// Checks the messages and tools of a chat request and brings the many shapes that clients send to the one that
// templates read. What comes out:
// - every message is an object with a string `role`; `developer` has become `system`;
// - `content` is a string, or a list of text and image parts when there is an image; null, missing and empty are "";
// - every tool call has an object as arguments: JSON in a string is parsed, null, missing and "" are {}.
// Everything else stays as it came. Errors name the place: messages[2].content[1].type.
#pragma once

#include <optional>

#include "base/json.h"
#include "base/result.h"

namespace strata {

Result<Json> normal_messages(const Json& messages, bool allow_images);
Result<Json> normal_tools(const Json& tools);  // null or empty: null

// The messages with every system message but one at the very start turned into a user message; nothing when there is
// none.
std::optional<Json> later_system_as_user(const Json& messages);

}  // namespace strata
