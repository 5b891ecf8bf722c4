// Characters as Python's str sees them: code points of UTF-8 text, white space, letters, upper and lower case, and
// searching. Every function takes valid UTF-8 and never reads outside it. Case mapping is the simple one of Unicode
// with the expansions that occur in running text (sharp s, dotted I, Latin ligatures).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strata::jinja {

inline constexpr size_t kNotFound = std::string_view::npos;

struct CodePoint {
  char32_t value = 0;
  size_t bytes = 1;
};
CodePoint code_point_at(std::string_view text, size_t offset);  // offset < size
size_t code_point_start(std::string_view text, size_t end);     // start of the character that ends before `end` > 0
size_t count_code_points(std::string_view text);
size_t offset_of_code_point(std::string_view text, size_t index);  // the size when there are fewer

bool is_space(char32_t c);
bool is_printable(char32_t c);
bool is_letter(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
void append_upper(std::string& out, char32_t c);
void append_lower(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);

// First or last place of `needle` in text[from, to), in time linear in the text; kNotFound when absent.
size_t find_text(std::string_view text, std::string_view needle, size_t from = 0);
size_t find_last_text(std::string_view text, std::string_view needle);

}  // namespace strata::jinja
