// Any bytes either parse or fail with a status; what parsed prints, and the print parses to the same text again.
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = strata::parse_json(text, "input", 20);
  if (!value.ok()) return 0;
  const std::string printed = strata::dump_python_style(*value);
  const auto again = strata::parse_json(printed, "print", 20);
  CHECK(again.ok(), "{}", again.status().text());
  CHECK(strata::dump_python_style(*again) == printed, "the second print of {} differs", printed);
  return 0;
}
