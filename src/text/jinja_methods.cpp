// Methods of strings, lists and dicts, with the meaning they have in Python.
#include <algorithm>

#include "text/jinja_builtins.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace strata::jinja {
namespace {

bool need_string(Context& ctx, const Value& v, const char* what) {
  if (v.is(Kind::string)) return true;
  if (v.is(Kind::undefined) && v.undefined != nullptr)
    ctx.fail(v.undefined->message);
  else
    ctx.fail(fmt::format("{} must be str, not {}", what, type_name(v)));
  return false;
}

template <bool kLeft, bool kRight>
Value strip(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  if (!bind_args(ctx, "strip", args, std::array{"chars"}, 0, a)) return {};
  if (a[0].is(Kind::none)) a[0] = Value::missing();
  if (!a[0].is(Kind::missing) && !need_string(ctx, a[0], "strip argument")) return {};
  return strip_text(ctx, self, a[0], kLeft, kRight);
}

template <Case kTo>
Value cased(Context& ctx, const Value& self, const Args& args) {
  return no_arguments(ctx, "the method", args) ? change_case(ctx, self, kTo) : Value();
}

// Pieces between runs of white space; at most `limit` cuts, from the right when asked.
void split_at_space(Context& ctx, const Value& self, int64_t limit, bool from_right, List* out) {
  const std::string_view text = self.view();
  const auto space = [&](size_t at) { return is_space(code_point_at(text, at).value); };
  size_t begin = 0, end = text.size();
  while (!ctx.failed()) {
    while (begin < end && space(begin)) begin += code_point_at(text, begin).bytes;
    while (end > begin && space(code_point_start(text, end))) end = code_point_start(text, end);
    if (begin == end) break;
    if (limit == 0) {  // the rest keeps the white space on its far side
      if (!from_right) end = text.size();
      if (from_right) begin = 0;
      ctx.push(out, ctx.substring(self, begin, end));
      break;
    }
    --limit;
    size_t cut = from_right ? end : begin;
    if (from_right) {
      while (cut > begin && !space(code_point_start(text, cut))) cut = code_point_start(text, cut);
      ctx.push(out, ctx.substring(self, cut, end));
      end = cut;
    } else {
      while (cut < end && !space(cut)) cut += code_point_at(text, cut).bytes;
      ctx.push(out, ctx.substring(self, begin, cut));
      begin = cut;
    }
  }
}

template <bool kFromRight>
Value split(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 2> a;
  if (!bind_args(ctx, "split", args, std::array{"sep", "maxsplit"}, 0, a)) return {};
  int64_t limit = int_argument(ctx, a[1], -1);
  const bool by_space = a[0].is(Kind::missing) || a[0].is(Kind::none);
  if (ctx.failed() || !ctx.spend_bytes(self.length * 4ull) || (!by_space && !need_string(ctx, a[0], "separator")))
    return {};
  if (!by_space && a[0].length == 0) return ctx.fail("empty separator");
  List* out = ctx.list();
  if (by_space) {
    split_at_space(ctx, self, limit, kFromRight, out);
  } else {
    size_t begin = 0, end = self.length;
    for (; limit != 0 && !ctx.failed(); --limit) {
      const std::string_view rest = self.view().substr(begin, end - begin);
      ctx.spend_bytes(kFromRight && a[0].length > 16 ? rest.size() : 0);  // a long text is sought from the front
      const size_t at = kFromRight ? find_last_text(rest, a[0].view()) : find_text(rest, a[0].view());
      if (at == kNotFound) break;
      const size_t cut = begin + at;
      ctx.push(out, kFromRight ? ctx.substring(self, cut + a[0].length, end) : ctx.substring(self, begin, cut));
      (kFromRight ? end : begin) = kFromRight ? cut : cut + a[0].length;
    }
    ctx.push(out, ctx.substring(self, begin, end));
  }
  if (kFromRight) std::reverse(out->items.begin(), out->items.end());
  return list_value(out);
}

Value splitlines(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  if (!bind_args(ctx, "splitlines", args, std::array{"keepends"}, 0, a)) return {};
  return list_value(lines_of(ctx, self, flag_argument(a[0], false)));
}

// Byte range of self[start:end] in characters.
std::pair<size_t, size_t> range_of(Context& ctx, const Value& self, const Value& start, const Value& end) {
  const std::string_view text = self.view();
  if (start.is(Kind::missing) && end.is(Kind::missing)) return {0, text.size()};
  const auto n = static_cast<int64_t>(count_code_points(text));
  const auto clamp = [n](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
  const int64_t first = clamp(std::max(int_argument(ctx, start, 0), -n));
  const int64_t last = clamp(std::max(int_argument(ctx, end, n), -n));
  ctx.spend_bytes(text.size() * 2);
  const size_t from = offset_of_code_point(text, static_cast<size_t>(first));
  return {from, std::max(from, offset_of_code_point(text, static_cast<size_t>(last)))};
}

template <bool kAtStart>
Value starts_or_ends(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 3> a;
  if (!bind_args(ctx, kAtStart ? "startswith" : "endswith", args, std::array{"prefix", "start", "end"}, 1, a))
    return {};
  const auto [from, to] = range_of(ctx, self, a[1], a[2]);
  const std::string_view text = self.view().substr(from, to - from);
  const bool many = a[0].is(Kind::list) && a[0].list->kind == ListKind::tuple;
  for (size_t i = 0; i < (many ? a[0].list->items.size() : 1); ++i) {
    const Value& wanted = many ? a[0].list->items[i] : a[0];
    if (!need_string(ctx, wanted, kAtStart ? "startswith first arg" : "endswith first arg")) return {};
    const std::string_view w = wanted.view();
    if (w.size() <= text.size() && (kAtStart ? text.substr(0, w.size()) : text.substr(text.size() - w.size())) == w)
      return Value::of(true);
  }
  return Value::of(false);
}

enum class Search { find, rfind, index, rindex };

template <Search kHow>
Value search(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 3> a;
  if (!bind_args(ctx, "find", args, std::array{"sub", "start", "end"}, 1, a) ||
      !need_string(ctx, a[0], "find argument"))
    return {};
  const auto [from, to] = range_of(ctx, self, a[1], a[2]);
  if (!ctx.spend_bytes(self.length)) return {};
  const std::string_view text = self.view().substr(from, to - from);
  constexpr bool kLast = kHow == Search::rfind || kHow == Search::rindex;
  const size_t at = kLast ? find_last_text(text, a[0].view()) : find_text(text, a[0].view());
  if (at == kNotFound && (kHow == Search::index || kHow == Search::rindex)) return ctx.fail("substring not found");
  if (at == kNotFound) return Value::of(int64_t{-1});
  return Value::of(static_cast<int64_t>(count_code_points(self.view().substr(0, from + at))));
}

Value count_text(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 3> a;
  if (!bind_args(ctx, "count", args, std::array{"sub", "start", "end"}, 1, a) ||
      !need_string(ctx, a[0], "count argument"))
    return {};
  const auto [from, to] = range_of(ctx, self, a[1], a[2]);
  if (!ctx.spend_bytes(self.length * 4ull)) return {};
  const std::string_view text = self.view().substr(from, to - from);
  if (a[0].length == 0) return Value::of(static_cast<int64_t>(count_code_points(text) + 1));
  int64_t n = 0;
  for (size_t at = find_text(text, a[0].view()); at != kNotFound; at = find_text(text, a[0].view(), at + a[0].length)) {
    ++n;
    if (!ctx.spend(1)) return {};
  }
  return Value::of(n);
}

Value replace(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 3> a;
  if (!bind_args(ctx, "replace", args, std::array{"old", "new", "count"}, 2, a)) return {};
  if (!need_string(ctx, a[0], "replace() argument 1") || !need_string(ctx, a[1], "replace() argument 2")) return {};
  const int64_t count = int_argument(ctx, a[2], -1);
  return ctx.failed() ? Value() : replace_text(ctx, self, a[0], a[1], count);
}

Value join(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  if (!bind_args(ctx, "join", args, std::array{"iterable"}, 1, a)) return {};
  const List* items = iterate(ctx, a[0]);
  return ctx.failed() ? Value() : join_items(ctx, *items, self, true);
}

template <bool (*kIs)(char32_t)>
Value all_are(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "the method", args) || !ctx.spend_bytes(self.length * 4ull)) return {};
  const std::string_view text = self.view();
  bool all = !text.empty();
  for (size_t at = 0; at < text.size() && all;) {
    const CodePoint c = code_point_at(text, at);
    all = kIs(c.value);
    at += c.bytes;
  }
  return Value::of(all);
}

bool is_letter_or_number(char32_t c) {
  return is_letter(c) || is_numeric(c);
}

// Upper (or lower) case only, and at least one letter that has a case.
template <bool kUpper>
Value is_cased(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "the method", args) || !ctx.spend_bytes(self.length * 4ull)) return {};
  const std::string_view text = self.view();
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (kUpper ? is_lower(c.value) : is_upper(c.value)) return Value::of(false);
    any = any || (kUpper ? is_upper(c.value) : is_lower(c.value));
    at += c.bytes;
  }
  return Value::of(any);
}

template <bool kPrefix>
Value without(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  if (!bind_args(ctx, "removeprefix", args, std::array{"prefix"}, 1, a) || !need_string(ctx, a[0], "the argument"))
    return {};
  const std::string_view text = self.view();
  const size_t n = a[0].length;
  if (n > text.size() || (kPrefix ? text.substr(0, n) : text.substr(text.size() - n)) != a[0].view()) return self;
  return kPrefix ? ctx.substring(self, n, text.size()) : ctx.substring(self, 0, text.size() - n);
}

// "{}", "{0}" and "{name}"; format specifications are not supported.
Value format(Context& ctx, const Value& self, const Args& args) {
  const std::string_view text = self.view();
  MarkedText out;
  size_t automatic = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t brace = std::min(text.find_first_of("{}", at), text.size());
    if (!ctx.spend(1) || !ctx.reserve(brace - at + 1)) return {};
    out.append(self.text->text, at, brace);
    if (brace == text.size()) break;
    if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
      out.append(self.text->text, brace, brace + 1);
      at = brace + 2;
      continue;
    }
    const size_t close = text[brace] == '{' ? text.find('}', brace) : kNotFound;
    if (close == kNotFound) return ctx.fail("single brace in a format string");
    const std::string_view field = text.substr(brace + 1, close - brace - 1);
    const Value* v = nullptr;
    if (field.find_first_not_of("0123456789") == kNotFound && field.size() < 9) {
      const size_t index = field.empty() ? automatic++ : static_cast<size_t>(std::stoul(std::string(field)));
      if (index < args.positional.size()) v = &args.positional[index];
    } else {
      for (const auto& [name, value] : args.named)
        if (name == field) v = &value;
    }
    if (v == nullptr) return ctx.fail(fmt::format("format has no value for '{{{}}}'", field));
    const Value shown = to_str(ctx, *v);
    if (!ctx.reserve(shown.length)) return {};
    out.append(shown.text->text, 0, shown.length);
    at = close + 1;
  }
  return ctx.string(std::move(out));
}

Value append(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  if (!bind_args(ctx, "append", args, std::array{"object"}, 1, a)) return {};
  ctx.push(self.list, a[0]);
  return Value::none();
}

Value index_in_list(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  if (!bind_args(ctx, "index", args, std::array{"value"}, 1, a)) return {};
  for (size_t i = 0; i < self.list->items.size() && !ctx.failed(); ++i)
    if (equal(ctx, self.list->items[i], a[0])) return Value::of(static_cast<int64_t>(i));
  return ctx.fail("the value is not in the list");
}

Value count_in_list(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  if (!bind_args(ctx, "count", args, std::array{"value"}, 1, a)) return {};
  int64_t n = 0;
  for (size_t i = 0; i < self.list->items.size() && !ctx.failed(); ++i) n += equal(ctx, self.list->items[i], a[0]);
  return Value::of(n);
}

Value copy(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "copy", args)) return {};
  if (self.is(Kind::list)) {
    List* out = ctx.list();
    for (const Value& item : self.list->items) ctx.push(out, item);
    return list_value(out);
  }
  Dict* out = ctx.dict();
  for (const Dict::Entry& entry : self.dict->entries()) ctx.set(out, entry.key, entry.value);
  return dict_value(out);
}

Value get(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 2> a;
  if (!bind_args(ctx, "get", args, std::array{"key", "default"}, 1, a)) return {};
  if (const Value* found = self.dict->find(a[0])) return *found;
  return a[1].is(Kind::missing) ? Value::none() : a[1];
}

template <bool kKeys, bool kValues>
Value view_of(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "the method", args)) return {};
  List* out = ctx.list(ListKind::view);
  for (const Dict::Entry& entry : self.dict->entries()) {
    Value item = kKeys ? entry.key : entry.value;
    if (kKeys && kValues) {
      item = list_value(ctx.list(ListKind::tuple));
      ctx.push(item.list, entry.key);
      ctx.push(item.list, entry.value);
    }
    ctx.push(out, item);
    if (ctx.failed()) return {};
  }
  return list_value(out);
}

const Builtin kStringMethods[] = {
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"startswith", starts_or_ends<true>},
    {"endswith", starts_or_ends<false>},
    {"upper", cased<Case::upper>},
    {"lower", cased<Case::lower>},
    {"title", cased<Case::title_words>},
    {"capitalize", cased<Case::capital>},
    {"replace", replace},
    {"join", join},
    {"find", search<Search::find>},
    {"rfind", search<Search::rfind>},
    {"index", search<Search::index>},
    {"rindex", search<Search::rindex>},
    {"count", count_text},
    {"isspace", all_are<is_space>},
    {"isalpha", all_are<is_letter>},
    {"isdigit", all_are<is_digit>},
    {"isdecimal", all_are<is_decimal>},
    {"isnumeric", all_are<is_numeric>},
    {"isalnum", all_are<is_letter_or_number>},
    {"isupper", is_cased<true>},
    {"islower", is_cased<false>},
    {"removeprefix", without<true>},
    {"removesuffix", without<false>},
    {"format", format},
};
const Builtin kListMethods[] = {{"append", append}, {"index", index_in_list}, {"count", count_in_list}, {"copy", copy}};
const Builtin kTupleMethods[] = {{"index", index_in_list}, {"count", count_in_list}};
const Builtin kDictMethods[] = {{"get", get},
                                {"items", view_of<true, true>},
                                {"keys", view_of<true, false>},
                                {"values", view_of<false, true>},
                                {"copy", copy}};

template <size_t N>
const Builtin* find_in(const Builtin (&table)[N], std::string_view name) {
  const auto* at = std::find_if(table, table + N, [name](const Builtin& b) { return name == b.name; });
  return at == table + N ? nullptr : at;
}

}  // namespace

const Builtin* find_method(const Value& self, std::string_view name) {
  if (self.is(Kind::string)) return find_in(kStringMethods, name);
  if (self.is(Kind::dict)) return find_in(kDictMethods, name);
  if (!self.is(Kind::list)) return nullptr;
  if (self.list->kind == ListKind::list) return find_in(kListMethods, name);
  return self.list->kind == ListKind::tuple || self.list->kind == ListKind::range ? find_in(kTupleMethods, name)
                                                                                  : nullptr;
}

bool is_forbidden_method(const Value& self, std::string_view name) {
  static constexpr std::string_view kForbidden[] = {"clear", "fromkeys", "pop", "popitem", "setdefault", "update"};
  return self.is(Kind::dict) && std::find(std::begin(kForbidden), std::end(kForbidden), name) != std::end(kForbidden);
}

}  // namespace strata::jinja
