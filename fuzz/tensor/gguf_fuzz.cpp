// Any bytes either parse or fail with a status, and everything a parsed file hands out lies inside the input.
// An input may hold several shards, separated by kSeparator.
#include "tensor/gguf.h"

namespace {

constexpr std::string_view kSeparator = "\n--shard--\n";

void check_inside(const std::byte* data, size_t bytes, std::string_view input) {
  const auto* begin = reinterpret_cast<const std::byte*>(input.data());
  CHECK(data >= begin && bytes <= input.size() && data - begin <= static_cast<ptrdiff_t>(input.size() - bytes),
        "{} bytes outside of the input", bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  std::vector<strata::GgufBytes> shards;
  for (size_t at = 0; at <= input.size();) {
    const size_t end = std::min(input.find(kSeparator, at), input.size());
    shards.push_back({"shard", std::as_bytes(std::span(input.substr(at, end - at)))});
    at = end == input.size() ? size + 1 : end + kSeparator.size();
  }
  const auto file = strata::Gguf::parse(std::move(shards));
  if (!file.ok()) {
    CHECK(!file.status().message().empty(), "a failure without a message");
    return 0;
  }
  for (const std::string_view key : file->keys()) {
    const strata::GgufValue& value = *file->find(key);
    check_inside(value.data, value.bytes, input);
    CHECK(file->value_text(value, 50).size() <= 200, "50 characters are at most 200 bytes");
    if (const auto list = file->get_string_array(key); list.ok()) {
      for (const std::string_view text : *list)
        check_inside(reinterpret_cast<const std::byte*>(text.data()), text.size(), input);
    }
    if (const auto text = file->get_string(key); text.ok()) strata::printable(*text, 100);
    const bool is_integer = file->get_u64(key).ok() || file->get_int(key, INT64_MIN, INT64_MAX).ok();
    CHECK(!is_integer || file->get_number(key).ok(), "an integer is a number");
    CHECK(!file->get_u64_array(key).ok() || value.is_array, "a scalar is no array");
    CHECK(file->get_int_array(key).ok() || !file->get_i32_array(key).ok(), "i32 values are integers");
  }
  for (const strata::GgufTensor& tensor : file->tensors()) {
    check_inside(tensor.data, tensor.bytes, input);
    CHECK(file->find_tensor(tensor.name) == &tensor, "names are unique");
    CHECK(strata::checked_bytes(tensor.type, tensor.shape).value() == tensor.bytes, "the size follows from the shape");
  }
  return 0;
}
