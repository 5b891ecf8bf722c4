// The typed side of Gguf: values as numbers, strings and lists, and as text for people.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/utf8.h"
#include "tensor/gguf.h"

namespace strata {
namespace {

template <class T>
T raw(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

struct Integer {
  bool negative = false;
  uint64_t bits = 0;  // two's complement when negative
};

std::optional<Integer> integer_at(GgufType type, const std::byte* at) {
  const auto of = [](int64_t v) { return Integer{v < 0, static_cast<uint64_t>(v)}; };
  switch (type) {
    case GgufType::u8:
      return of(raw<uint8_t>(at));
    case GgufType::i8:
      return of(raw<int8_t>(at));
    case GgufType::u16:
      return of(raw<uint16_t>(at));
    case GgufType::i16:
      return of(raw<int16_t>(at));
    case GgufType::u32:
      return of(raw<uint32_t>(at));
    case GgufType::i32:
      return of(raw<int32_t>(at));
    case GgufType::i64:
      return of(raw<int64_t>(at));
    case GgufType::u64:
      return Integer{false, raw<uint64_t>(at)};
    default:
      return std::nullopt;
  }
}

std::string integer_text(const Integer& v) {
  return v.negative ? fmt::format("{}", static_cast<int64_t>(v.bits)) : fmt::format("{}", v.bits);
}

bool fits_int64(const Integer& v) {
  return v.negative || v.bits <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

std::string_view string_at(const std::byte* at) {
  return {reinterpret_cast<const char*>(at + sizeof(uint64_t)), static_cast<size_t>(raw<uint64_t>(at))};
}

// One character as it may be shown, and how many bytes of the input it stands for.
std::string shown(std::string_view s, size_t at, size_t* used) {
  const size_t n = utf8_length(s, at);
  const auto lead = static_cast<unsigned char>(s[at]);
  *used = n == 0 ? 1 : n;
  if (lead == '\n') return "\\n";
  if (lead == '\t') return "\\t";
  if (lead == '\r') return "\\r";
  if (n == 2 && lead == 0xC2 && static_cast<unsigned char>(s[at + 1]) < 0xA0) {  // the second set of control characters
    return fmt::format("\\x{:02x}", static_cast<unsigned char>(s[at + 1]));
  }
  if (n == 0 || lead < 0x20 || lead == 0x7F) return fmt::format("\\x{:02x}", lead);
  return std::string(s.substr(at, n));
}

// Text that stops growing at a number of characters, whatever is added.
class Cut {
 public:
  explicit Cut(size_t max_chars) : max_(max_chars) {}
  bool full() const { return chars_ > max_; }
  void add(std::string_view unit, size_t chars) {
    if (full()) return;
    if (chars_ + chars <= (max_ > 3 ? max_ - 3 : 0)) cut_at_ = text_.size() + unit.size();
    text_ += unit;
    chars_ += chars;
  }
  void add_bytes(std::string_view bytes) {
    for (size_t at = 0, used = 0; at < bytes.size() && !full(); at += used) {
      const std::string unit = shown(bytes, at, &used);
      add(unit, unit.front() == '\\' ? unit.size() : 1);
    }
  }
  void add_ascii(std::string_view text) {
    for (const char& c : text) add({&c, 1}, 1);
  }
  std::string take() {
    if (!full()) return std::move(text_);
    text_.resize(cut_at_);
    return text_ + std::string("...").substr(0, std::min<size_t>(max_, 3));
  }

 private:
  std::string text_;
  size_t max_, chars_ = 0, cut_at_ = 0;
};

std::string element_text(GgufType type, const std::byte* at) {
  if (const auto v = integer_at(type, at)) return integer_text(*v);
  if (type == GgufType::boolean) return raw<uint8_t>(at) != 0 ? "true" : "false";
  if (type == GgufType::f32) return fmt::format("{}", raw<float>(at));
  return fmt::format("{}", raw<double>(at));
}

std::string type_text(const GgufValue& value) {
  return value.is_array ? fmt::format("an array of {} {}", value.count, gguf_type_name(value.type))
                        : gguf_type_name(value.type);
}

}  // namespace

const char* gguf_type_name(GgufType type) {
  static constexpr const char* kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};
  const auto i = static_cast<size_t>(type);
  return i < std::size(kNames) ? kNames[i] : "unknown";
}

size_t gguf_type_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      return 0;
  }
  return 0;
}

Status check_gguf_name(std::string_view name) {
  if (name.empty()) return {Code::corrupt, "the name is empty"};
  if (name.size() > 65535)
    return {Code::corrupt, fmt::format("the name has {} bytes, at most 65535 are allowed", name.size())};
  for (size_t at = 0, n = 0; at < name.size(); at += n) {
    n = utf8_length(name, at);
    if (n == 0) return {Code::corrupt, fmt::format("the name is not valid UTF-8 at its byte {}", at)};
  }
  return {};
}

std::string printable(std::string_view bytes, size_t max_chars) {
  Cut cut(max_chars);
  cut.add_bytes(bytes);
  return cut.take();
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

Status Gguf::mismatch(std::string_view key, const char* expected, const GgufValue& found) const {
  return {Code::corrupt,
          fmt::format("{}: key '{}' is {}, expected {}", path(), printable(key, 100), type_text(found), expected)};
}

Result<const GgufValue*> Gguf::scalar_of(std::string_view key, const char* expected) const {
  const GgufValue* value = find(key);
  if (value == nullptr) {
    return Status{Code::not_found,
                  fmt::format("{}: key '{}' is missing, expected {}", path(), printable(key, 100), expected)};
  }
  if (value->is_array) return mismatch(key, expected, *value);
  return value;
}

Result<const GgufValue*> Gguf::array_of(std::string_view key, const char* expected) const {
  const GgufValue* value = find(key);
  if (value == nullptr) {
    return Status{Code::not_found,
                  fmt::format("{}: key '{}' is missing, expected {}", path(), printable(key, 100), expected)};
  }
  if (!value->is_array) return mismatch(key, expected, *value);
  return value;
}

Result<uint64_t> Gguf::get_u64(std::string_view key) const {
  constexpr const char* kExpected = "a non-negative integer";
  ASSIGN_OR_RETURN(const GgufValue* value, scalar_of(key, kExpected));
  const auto v = integer_at(value->type, value->data);
  if (!v) return mismatch(key, kExpected, *value);
  if (v->negative) {
    return Status{Code::out_of_range, fmt::format("{}: key '{}' is {}, expected {}", path(), printable(key, 100),
                                                  integer_text(*v), kExpected)};
  }
  return v->bits;
}

Result<int64_t> Gguf::get_int(std::string_view key, int64_t min, int64_t max) const {
  const std::string expected = fmt::format("an integer from {} to {}", min, max);
  ASSIGN_OR_RETURN(const GgufValue* value, scalar_of(key, expected.c_str()));
  const auto v = integer_at(value->type, value->data);
  if (!v) return mismatch(key, expected.c_str(), *value);
  const auto number = static_cast<int64_t>(v->bits);
  if (!fits_int64(*v) || number < min || number > max) {
    return Status{Code::out_of_range, fmt::format("{}: key '{}' is {}, expected {}", path(), printable(key, 100),
                                                  integer_text(*v), expected)};
  }
  return number;
}

Result<double> Gguf::get_number(std::string_view key) const {
  ASSIGN_OR_RETURN(const GgufValue* value, scalar_of(key, "a number"));
  if (const auto v = integer_at(value->type, value->data)) {
    return v->negative ? static_cast<double>(static_cast<int64_t>(v->bits)) : static_cast<double>(v->bits);
  }
  if (value->type != GgufType::f32 && value->type != GgufType::f64) return mismatch(key, "a number", *value);
  const double number =
      value->type == GgufType::f32 ? static_cast<double>(raw<float>(value->data)) : raw<double>(value->data);
  if (!std::isfinite(number)) {
    return Status{Code::out_of_range,
                  fmt::format("{}: key '{}' is {}, expected a finite number", path(), printable(key, 100), number)};
  }
  return number;
}

Result<bool> Gguf::get_bool(std::string_view key) const {
  ASSIGN_OR_RETURN(const GgufValue* value, scalar_of(key, "bool"));
  if (value->type != GgufType::boolean) return mismatch(key, "bool", *value);
  return raw<uint8_t>(value->data) != 0;
}

Result<std::string_view> Gguf::get_string(std::string_view key) const {
  ASSIGN_OR_RETURN(const GgufValue* value, scalar_of(key, "string"));
  if (value->type != GgufType::string) return mismatch(key, "string", *value);
  return string_at(value->data);
}

Result<std::vector<uint64_t>> Gguf::get_u64_array(std::string_view key) const {
  constexpr const char* kExpected = "an array of u32, u64, or non-negative i32 or i64";
  ASSIGN_OR_RETURN(const GgufValue* value, array_of(key, kExpected));
  const bool wide = value->type == GgufType::u32 || value->type == GgufType::u64 || value->type == GgufType::i32 ||
                    value->type == GgufType::i64;
  if (!wide && value->type != GgufType::boolean) return mismatch(key, kExpected, *value);
  const GgufType stored = wide ? value->type : GgufType::u8;
  const size_t step = gguf_type_bytes(stored);
  std::vector<uint64_t> out(value->count);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto v = integer_at(stored, value->data + i * step);
    if (v->negative) {
      return Status{Code::out_of_range, fmt::format("{}: element {} of key '{}' is {}, expected a non-negative integer",
                                                    path(), i, printable(key, 100), integer_text(*v))};
    }
    out[i] = v->bits;
  }
  return out;
}

Result<std::vector<int64_t>> Gguf::get_int_array(std::string_view key) const {
  constexpr const char* kExpected = "an array of integers";
  ASSIGN_OR_RETURN(const GgufValue* value, array_of(key, kExpected));
  const GgufType stored = value->type == GgufType::boolean ? GgufType::u8 : value->type;
  const size_t step = gguf_type_bytes(stored);
  if (step == 0 || stored == GgufType::f32 || stored == GgufType::f64) return mismatch(key, kExpected, *value);
  std::vector<int64_t> out(value->count);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto v = integer_at(stored, value->data + i * step);
    if (!fits_int64(*v)) {
      return Status{Code::out_of_range,
                    fmt::format("{}: element {} of key '{}' is {}, expected at most {}", path(), i, printable(key, 100),
                                integer_text(*v), std::numeric_limits<int64_t>::max())};
    }
    out[i] = static_cast<int64_t>(v->bits);
  }
  return out;
}

Result<std::vector<int32_t>> Gguf::get_i32_array(std::string_view key) const {
  ASSIGN_OR_RETURN(const GgufValue* value, array_of(key, "an array of i32"));
  if (value->type != GgufType::i32) return mismatch(key, "an array of i32", *value);
  std::vector<int32_t> out(value->count);
  if (!out.empty()) std::memcpy(out.data(), value->data, value->bytes);
  return out;
}

Result<std::vector<std::string_view>> Gguf::get_string_array(std::string_view key) const {
  ASSIGN_OR_RETURN(const GgufValue* value, array_of(key, "an array of string"));
  if (value->type != GgufType::string) return mismatch(key, "an array of string", *value);
  std::vector<std::string_view> out(value->count);
  const std::byte* at = value->data;
  for (std::string_view& text : out) {
    text = string_at(at);
    at += sizeof(uint64_t) + text.size();
  }
  return out;
}

std::string Gguf::value_text(const GgufValue& value, size_t max_chars) const {
  Cut cut(max_chars);
  const std::byte* at = value.data;
  if (value.is_array) cut.add_ascii("[");
  for (uint64_t i = 0; i < value.count && !cut.full(); ++i) {
    if (i > 0) cut.add_ascii(", ");
    if (value.type == GgufType::string) {
      const std::string_view text = string_at(at);
      cut.add_bytes(text);
      at += sizeof(uint64_t) + text.size();
    } else {
      cut.add_ascii(element_text(value.type, at));
      at += gguf_type_bytes(value.type);
    }
  }
  if (value.is_array) cut.add_ascii("]");
  return cut.take();
}

}  // namespace strata
