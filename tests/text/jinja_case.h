// Rendering small templates in tests.
#pragma once

#include <string>

#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace strata::jinja {

// 2024-07-26 15:04:05, a Friday: the date that the stored outcomes were made with.
inline std::tm test_date() {
  std::tm t{};
  t.tm_year = 124;
  t.tm_mon = 6;
  t.tm_mday = 26;
  t.tm_hour = 15;
  t.tm_min = 4;
  t.tm_sec = 5;
  t.tm_wday = 5;
  t.tm_yday = 207;
  return t;
}

inline Outcome render_source(const std::string& source, const Json& inputs = Json::object(),
                             const Limits& limits = {}) {
  auto parsed = parse_template(source, "chat template", limits);
  if (!parsed.ok()) return {parsed.status(), false, {}};
  std::vector<Input> list;
  for (const auto& [name, value] : inputs.items()) list.push_back({name, value, false});
  return render(*parsed, list, test_date(), limits);
}

// The text, or "error: " and the message.
inline std::string rendered(const std::string& source, const Json& inputs = Json::object(), const Limits& limits = {}) {
  const Outcome outcome = render_source(source, inputs, limits);
  return outcome.status.ok() ? std::string(outcome.text.bytes()) : "error: " + outcome.status.message();
}

}  // namespace strata::jinja
