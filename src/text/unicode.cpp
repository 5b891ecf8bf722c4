#include "text/unicode.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <numeric>
#include <span>
#include <vector>

#include "base/check.h"

namespace strata {

namespace {

uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

// How many bytes a character with this first byte has, and what its second byte may be; 0 for a byte that starts none.
// The bounds exclude overlong forms, surrogates and code points above U+10FFFF.
struct Lead {
  uint8_t length, second_min, second_max;
};

constexpr Lead lead_of(uint8_t b) {
  if (b >= 0xC2 && b <= 0xDF) return {2, 0x80, 0xBF};
  if (b == 0xE0) return {3, 0xA0, 0xBF};
  if (b == 0xED) return {3, 0x80, 0x9F};
  if (b >= 0xE1 && b <= 0xEF) return {3, 0x80, 0xBF};
  if (b == 0xF0) return {4, 0x90, 0xBF};
  if (b >= 0xF1 && b <= 0xF3) return {4, 0x80, 0xBF};
  if (b == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

constexpr int32_t kHangulFirst = 0xAC00, kHangulEnd = 0xD7A4;

const utf8proc_property_t& property(int32_t code_point) {
  return *utf8proc_get_property(code_point);
}

bool is_mark(const utf8proc_property_t& p) {
  return p.category == UTF8PROC_CATEGORY_MN || p.category == UTF8PROC_CATEGORY_MC || p.category == UTF8PROC_CATEGORY_ME;
}

bool shows(int32_t code_point) {
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

// True for a character that neither reorders nor composes with what stands before it. All that can are marks, and the
// vowels and final consonants of Hangul.
bool starts_group(int32_t code_point) {
  if (code_point < 0x300) return true;
  if (code_point >= 0x1160 && code_point < 0x1200) return false;
  const utf8proc_property_t& p = property(code_point);
  return p.combining_class == 0 && !is_mark(p);
}

// Form C of such a character alone is the character itself. (Below U+0300 all are; "may differ" is a safe answer.)
bool is_composed(int32_t code_point) {
  if (code_point < 0x300 || (code_point >= kHangulFirst && code_point < kHangulEnd)) return true;
  const utf8proc_property_t& p = property(code_point);
  return p.decomp_seqindex == UINT16_MAX || p.decomp_type != 0;
}

uint8_t class_at(int32_t code_point) {
  return static_cast<uint8_t>(property(code_point).combining_class);
}

// Sorts by combining class, equals in their order, by counting: a run may be as long as the text.
void sort_by_class(std::span<int32_t> run) {
  std::array<size_t, 257> begins{};
  for (const int32_t c : run) ++begins[class_at(c) + size_t{1}];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  const std::vector<int32_t> before(run.begin(), run.end());
  for (const int32_t c : before) run[begins[class_at(c)]++] = c;
}

// Canonical order: each run of characters with a combining class is sorted by it.
void order_marks(std::vector<int32_t>& code_points) {
  for (auto run = code_points.begin(); run != code_points.end();) {
    if (class_at(*run) == 0) {
      ++run;
      continue;
    }
    const auto end = std::find_if(run, code_points.end(), [](int32_t c) { return class_at(c) == 0; });
    const auto before = [](int32_t a, int32_t b) { return class_at(a) < class_at(b); };
    if (!std::is_sorted(run, end, before)) sort_by_class({run, end});
    run = end;
  }
}

// Composes one group: a character and all that may combine with it. `work` is scratch space.
void append_group(std::string& out, std::string_view group, std::vector<int32_t>& work) {
  constexpr auto kDecompose = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE);
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  work.clear();
  for (size_t pos = 0; pos < group.size();) {
    const Utf8Char c = utf8_char(group, pos);
    int32_t parts[32];
    int last_class = 0;
    const auto n = utf8proc_decompose_char(c.code_point, parts, 32, kDecompose, &last_class);
    CHECK(n > 0 && n <= 32, "U+{:04X} decomposes into {} characters", c.code_point, n);
    work.insert(work.end(), parts, parts + n);
    pos += c.length;
  }
  order_marks(work);
  const auto n = utf8proc_normalize_utf32(work.data(), static_cast<utf8proc_ssize_t>(work.size()), kCompose);
  CHECK(n > 0, "composing {} characters gave {}", work.size(), n);
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) append_utf8(out, work[i]);
}

}  // namespace

Utf8Char utf8_char(std::string_view text, size_t pos) {
  const uint8_t first = byte_at(text, pos);
  if (first < 0x80) return {first, 1, Utf8Kind::valid};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {-1, 1, Utf8Kind::invalid};
  int32_t code_point = first & (0x7F >> lead.length);
  for (uint32_t i = 1; i < lead.length; ++i) {
    if (pos + i >= text.size()) return {-1, i, Utf8Kind::incomplete};
    const uint8_t b = byte_at(text, pos + i);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (b < min || b > max) return {-1, i, Utf8Kind::invalid};
    code_point = code_point << 6 | (b & 0x3F);
  }
  return {code_point, lead.length, Utf8Kind::valid};
}

bool is_ascii(std::string_view text) {
  size_t i = 0;
  uint64_t bits = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    bits |= word;
  }
  for (; i < text.size(); ++i) bits |= byte_at(text, i);
  return (bits & 0x8080808080808080u) == 0;
}

bool is_valid_utf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_char(text, pos);
    if (c.kind != Utf8Kind::valid) return false;
    pos += c.length;
  }
  return true;
}

void append_utf8(std::string& out, int32_t code_point) {
  const auto c = static_cast<uint32_t>(code_point);
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

CharClass class_of(const Utf8Char& c) {
  const int32_t p = c.code_point;
  if (p == '\n' || p == '\r') return CharClass::line_end;
  // White_Space, which is wider than the categories Z*.
  if (p == ' ' || (p >= 0x09 && p <= 0x0D) || p == 0x85) return CharClass::space;
  if (p < 0x80) {  // with -1 for what is no character
    if ((p >= 'a' && p <= 'z') || (p >= 'A' && p <= 'Z')) return CharClass::letter;
    return p >= '0' && p <= '9' ? CharClass::number : CharClass::other;
  }
  switch (utf8proc_category(p)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::letter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return CharClass::mark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::space;
    default:
      return CharClass::other;
  }
}

void append_nfc(std::string& out, std::string_view text) {
  if (is_ascii(text)) {
    out.append(text);
    return;
  }
  std::vector<int32_t> work;
  size_t copied = 0;  // all before it is in `out`; from it to the current group the text is composed already
  for (size_t begin = 0; begin < text.size();) {
    const Utf8Char first = utf8_char(text, begin);
    size_t end = begin + first.length;
    if (first.kind == Utf8Kind::valid) {
      bool single = true;
      while (end < text.size() && byte_at(text, end) >= 0x80) {
        const Utf8Char next = utf8_char(text, end);
        if (next.kind != Utf8Kind::valid || starts_group(next.code_point)) break;
        end += next.length;
        single = false;
      }
      if (!single || !is_composed(first.code_point)) {
        out.append(text, copied, begin - copied);
        append_group(out, text.substr(begin, end - begin), work);
        copied = end;
      }
    }
    begin = end;
  }
  out.append(text, copied);
}

std::string to_valid_utf8(std::string_view text) {
  Utf8Stream stream;
  std::string out = stream.push(text);
  out += stream.finish();
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_char(text, pos);
    const std::string_view part = text.substr(pos, c.length);
    pos += c.length;
    if (part == "\n") {
      out += "\\n";
    } else if (part == "\r") {
      out += "\\r";
    } else if (part == "\t") {
      out += "\\t";
    } else if (part == "\\") {
      out += "\\\\";
    } else if (c.kind != Utf8Kind::valid || c.code_point < 0x20 || c.code_point == 0x7F) {
      for (const char byte : part) fmt::format_to(std::back_inserter(out), "\\x{:02X}", static_cast<uint8_t>(byte));
    } else if (part != " " && !shows(c.code_point)) {
      fmt::format_to(std::back_inserter(out), "\\u{{{:X}}}", c.code_point);
    } else {
      out += part;
    }
  }
  return out;
}

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined += bytes;
    bytes = joined;
    held_.clear();
  }
  std::string out;
  out.reserve(bytes.size());
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char c = utf8_char(bytes, pos);
    const std::string_view part = bytes.substr(pos, c.length);
    if (c.kind == Utf8Kind::incomplete) {
      held_ = part;
    } else {
      out += c.kind == Utf8Kind::valid ? part : kReplacement;
    }
    pos += c.length;
  }
  return out;
}

std::string Utf8Stream::finish() {
  const bool unfinished = !held_.empty();
  held_.clear();
  return unfinished ? std::string(kReplacement) : std::string();
}

}  // namespace strata
