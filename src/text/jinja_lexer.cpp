#include "text/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/jinja_unicode.h"
#include "text/unicode.h"

namespace strata::jinja {
namespace {

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

// Bytes of white space that start at `at`.
size_t space_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size()) {
    const CodePoint c = code_point_at(text, end);
    if (!is_space(c.value)) break;
    end += c.bytes;
  }
  return end - at;
}

std::string_view strip_end(std::string_view text) {
  while (!text.empty()) {
    const size_t start = code_point_start(text, text.size());
    if (!is_space(code_point_at(text, start).value)) break;
    text = text.substr(0, start);
  }
  return text;
}

// Every line ends in \n; one line end at the very end is dropped.
std::string normal_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normal_lines(source)), text_(source_) {}

  Result<std::vector<Token>> run() {
    while (at_ < text_.size() && error_.empty()) root();
    if (!error_.empty()) return Status(Code::corrupt, fmt::format("line {}: {}", line_, error_));
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  bool starts(std::string_view what, size_t at) const {
    return text_.substr(std::min(at, text_.size()), what.size()) == what;
  }
  bool starts(std::string_view what) const { return starts(what, at_); }
  void fail(std::string cause) {
    if (error_.empty()) error_ = std::move(cause);
  }
  void add(TokenKind kind, std::string_view text) { tokens_.push_back({kind, line_, std::string(text)}); }
  // Moves on, counting lines.
  void advance(size_t bytes) {
    const std::string_view passed = text_.substr(at_, bytes);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    line_starting_ = !passed.empty() && passed.back() == '\n';
    at_ += passed.size();
  }

  // Text up to the next tag, then the tag.
  void root() {
    size_t tag = at_;
    for (;; ++tag) {
      tag = text_.find('{', tag);
      if (tag == kNotFound || tag + 1 >= text_.size()) {
        add(TokenKind::data, text_.substr(at_));
        advance(text_.size() - at_);
        return;
      }
      if (text_[tag + 1] == '{' || text_[tag + 1] == '%' || text_[tag + 1] == '#') break;
    }
    const char what = text_[tag + 1];
    text_before_tag(tag, tag + 2, what != '{');
    if (what == '#')
      comment();
    else if (what == '%' && raw_begin() > 0)
      raw();
    else
      inside(what == '{');
  }

  // Emits text_[at_, tag) as the sign after the tag's opening bytes (at `sign`) wants it stripped; steps behind the
  // sign.
  void text_before_tag(size_t tag, size_t sign, bool strips_line) {
    std::string_view before = text_.substr(at_, tag - at_);
    const bool has_sign = sign < text_.size() && (text_[sign] == '-' || text_[sign] == '+');
    if (has_sign && text_[sign] == '-') {
      before = strip_end(before);
    } else if (!has_sign && strips_line) {
      const size_t newline = before.rfind('\n');
      const size_t line_start = newline == kNotFound ? 0 : newline + 1;
      if ((line_start > 0 || line_starting_) && space_at(before, line_start) == before.size() - line_start)
        before = before.substr(0, line_start);
    }
    if (!before.empty()) add(TokenKind::data, before);
    advance(tag - at_);
    tag_line_ = line_;
    advance(sign - at_);
    // A sign that belongs to the closing of an empty tag ("{%-%}") is still the opening's, as in jinja2.
    if (has_sign) advance(1);
  }

  void comment() {
    const size_t close = text_.find("#}", at_);
    if (close == kNotFound) return fail("a comment is not closed with '#}'");
    const char sign = close > at_ ? text_[close - 1] : ' ';
    advance(close + 2 - at_);
    after_block(sign);
  }

  // White space that the closing tag (or the sign before it) takes along.
  void after_block(char sign) {
    if (sign == '-')
      advance(space_at(text_, at_));
    else if (sign != '+' && starts("\n"))
      advance(1);
  }

  // Bytes of "raw %}" at the current place, 0 when this tag is another.
  size_t raw_begin() const {
    size_t at = at_ + space_at(text_, at_);
    if (!starts("raw", at)) return 0;
    at += 3;
    at += space_at(text_, at);
    if (starts("-%}", at)) return at + 3 + space_at(text_, at + 3) - at_;
    return starts("%}", at) ? at + 2 - at_ : 0;
  }

  void raw() {
    advance(raw_begin());
    for (size_t open = at_;; ++open) {
      open = text_.find("{%", open);
      if (open == kNotFound) return fail("a raw block is not closed with 'endraw'");
      size_t at = open + 2;
      if (at < text_.size() && (text_[at] == '-' || text_[at] == '+')) ++at;
      at += space_at(text_, at);
      if (!starts("endraw", at)) continue;
      at += 6;
      at += space_at(text_, at);
      const char sign = at < text_.size() ? text_[at] : ' ';
      const size_t close = sign == '-' || sign == '+' ? at + 1 : at;
      if (!starts("%}", close)) continue;
      text_before_tag(open, open + 2, true);
      advance(close + 2 - at_);
      return after_block(sign);
    }
  }

  // The words of one tag, its end included.
  void inside(bool variable) {
    tokens_.push_back({variable ? TokenKind::variable_begin : TokenKind::block_begin, tag_line_, ""});
    const std::string_view end = variable ? "}}" : "%}";
    std::string open;  // closing signs that are still owed
    while (error_.empty()) {
      if (at_ >= text_.size()) return fail(fmt::format("the tag is not closed with '{}'", end));
      const char sign = text_[at_];
      const bool signed_end = (sign == '-' || (sign == '+' && !variable)) && starts(end, at_ + 1);
      if (open.empty() && (signed_end || starts(end))) {
        add(variable ? TokenKind::variable_end : TokenKind::block_end, "");
        advance(end.size() + (signed_end ? 1 : 0));
        if (!variable || sign == '-') after_block(signed_end ? sign : ' ');
        return;
      }
      if (const size_t space = space_at(text_, at_); space > 0)
        advance(space);
      else
        word(open);
    }
  }

  void word(std::string& open) {
    const char c = text_[at_];
    if (is_ascii_digit(c)) return number();
    if (c == '\'' || c == '"') return quoted(c);
    const CodePoint point = code_point_at(text_, at_);
    if (point.value == '_' || is_letter(point.value)) return name();
    sign(open);
  }

  void name() {
    size_t end = at_;
    while (end < text_.size()) {
      const CodePoint c = code_point_at(text_, end);
      if (c.value != '_' && !is_letter(c.value) && !is_numeric(c.value)) break;
      end += c.bytes;
    }
    add(TokenKind::name, text_.substr(at_, end - at_));
    advance(end - at_);
  }

  // Digits with single '_' between them, from `at`; the end.
  size_t digits(size_t at, bool (*digit)(char)) const {
    while (at < text_.size() &&
           (digit(text_[at]) || (text_[at] == '_' && at + 1 < text_.size() && digit(text_[at + 1]))))
      ++at;
    return at;
  }

  void number() {
    size_t end = at_;
    TokenKind kind = TokenKind::integer;
    const char second = at_ + 1 < text_.size() ? static_cast<char>(text_[at_ + 1] | 0x20) : ' ';
    if (text_[at_] == '0' && (second == 'x' || second == 'o' || second == 'b')) {
      const auto digit = second == 'x'
                             ? +[](char c) { return is_ascii_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }
                         : second == 'o' ? +[](char c) { return c >= '0' && c <= '7'; }
                                         : +[](char c) { return c == '0' || c == '1'; };
      end = digits(at_ + 2, digit);
      if (end == at_ + 2) return fail("a number without digits");
    } else {
      end = digits(at_, is_ascii_digit);
      const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';
      const size_t whole = end;
      if (!after_dot && end + 1 < text_.size() && text_[end] == '.' && is_ascii_digit(text_[end + 1]))
        end = digits(end + 1, is_ascii_digit);
      if (!after_dot && end < text_.size() && (text_[end] | 0x20) == 'e') {
        const size_t sign = end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '-') ? 1 : 0;
        if (end + 1 + sign < text_.size() && is_ascii_digit(text_[end + 1 + sign]))
          end = digits(end + 1 + sign, is_ascii_digit);
      }
      if (end > whole) kind = TokenKind::real;
    }
    std::string written(text_.substr(at_, end - at_));
    written.erase(std::remove(written.begin(), written.end(), '_'), written.end());
    add(kind, written);
    advance(end - at_);
  }

  void quoted(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return fail("a text in quotes is not closed");
    std::string value;
    if (!unescape(text_.substr(at_ + 1, end - at_ - 1), value)) return;
    add(TokenKind::string, value);
    advance(end + 1 - at_);
  }

  // Python's escapes; one that means nothing stays as written.
  bool unescape(std::string_view in, std::string& out) {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv";
    static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i] != '\\' || i + 1 >= in.size()) {
        out += in[i];
        continue;
      }
      const char c = in[++i];
      if (const size_t k = kFrom.find(c); k != kNotFound) {
        out += kTo[k];
      } else if (c == '\n') {
      } else if (c >= '0' && c <= '7') {
        size_t n = 1;
        while (n < 3 && i + n < in.size() && in[i + n] >= '0' && in[i + n] <= '7') ++n;
        append_utf8(out, static_cast<int32_t>(std::stoul(std::string(in.substr(i, n)), nullptr, 8)));
        i += n - 1;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        if (!unescape_hex(in, i, c == 'x' ? 2 : (c == 'u' ? 4 : 8), out)) return false;
      } else if (c == 'N') {
        fail("escapes by character name (\\N) are not supported");
        return false;
      } else {
        out += '\\';
        out += c;
      }
    }
    return true;
  }

  bool unescape_hex(std::string_view in, size_t& i, size_t n, std::string& out) {
    const std::string_view hex = in.substr(std::min(i + 1, in.size()), n);
    uint64_t value = 0;
    bool good = hex.size() == n;
    for (const char c : hex) {
      const char lower = static_cast<char>(c | 0x20);
      good = good && (is_ascii_digit(c) || (lower >= 'a' && lower <= 'f'));
      value = value * 16 + static_cast<uint64_t>(is_ascii_digit(c) ? c - '0' : lower - 'a' + 10);
    }
    if (!good || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
      fail(fmt::format("'\\{}{}' names no character", in[i], hex));
      return false;
    }
    append_utf8(out, static_cast<int32_t>(value));
    i += n;
    return true;
  }

  void sign(std::string& open) {
    static constexpr std::array<std::string_view, 6> kTwo = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kOne = "+-*/%~[](){}<>=.:|,;";
    const std::string_view two = text_.substr(at_, 2);
    const bool is_two = std::find(kTwo.begin(), kTwo.end(), two) != kTwo.end();
    const std::string_view text = two.substr(0, is_two ? 2 : 1);
    const CodePoint point = code_point_at(text_, at_);
    if (!is_two && (point.bytes > 1 || kOne.find(text[0]) == kNotFound))
      return fail(fmt::format("unexpected character '{}'", text_.substr(at_, point.bytes)));
    if (text == "{" || text == "(" || text == "[") open += text == "{" ? '}' : (text == "(" ? ')' : ']');
    if (text == "}" || text == ")" || text == "]") {
      if (open.empty()) return fail(fmt::format("unexpected '{}'", text));
      if (open.back() != text[0]) return fail(fmt::format("unexpected '{}', expected '{}'", text, open.back()));
      open.pop_back();
    }
    add(TokenKind::sign, text);
    advance(text.size());
  }

  const std::string source_;
  const std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  int tag_line_ = 1;
  bool line_starting_ = true;
  std::string error_;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace strata::jinja
