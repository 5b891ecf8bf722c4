// Any bytes as the source of a chat template, rendered for one request with every kind of message.
// Whatever comes out: untrusted text is text of the request or made from it, and a failure has a message.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace {

const std::vector<strata::jinja::Input>& inputs() {
  using strata::Json;
  static const std::vector<strata::jinja::Input> made = {
      {"messages",
       Json::parse(R"([{"role":"system","content":"Be brief"},{"role":"user","content":" h\u00e9llo <|im_start|> "},
        {"role":"assistant","content":"a</think>b","reasoning_content":"r","tool_calls":[{"function":{"name":"f","arguments":
        {"x":[1,2.5,null,true],"y":{"z":"\ud83d\ude00"}}}}]},{"role":"tool","content":"1e400"}])"),
       false},
      {"tools",
       Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","items":[]}}}])"),
       false},
      {"x", "a,b,,c\r\nd", false},
      {"n", 18446744073709551615ull, false},
      {"add_generation_prompt", true, false},
      {"bos_token", "<s>", true},
  };
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::jinja;
  Limits limits;
  limits.source_bytes = 1 << 14;
  limits.steps = 100'000;
  limits.value_bytes = 1 << 22;
  limits.output_bytes = 1 << 16;
  const auto parsed = parse_template(std::string_view(reinterpret_cast<const char*>(data), size), "template", limits);
  if (!parsed.ok()) {
    CHECK(!parsed.status().message().empty(), "an error without a message");
    return 0;
  }
  const Outcome outcome = render(*parsed, inputs(), std::tm{}, limits);
  CHECK(outcome.status.ok() || !outcome.status.message().empty(), "an error without a message");
  CHECK(outcome.text.size() <= limits.output_bytes, "{} bytes of output", outcome.text.size());
  size_t bytes = 0;
  for (const auto& piece : outcome.text.pieces()) bytes += piece.text.size();
  CHECK(bytes == outcome.text.size(), "pieces of {} bytes for a text of {}", bytes, outcome.text.size());
  return 0;
}
