#include "text/jinja_builtins.h"

#include <algorithm>

#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace strata::jinja {
namespace {

Value make_range(Context& ctx, const Value&, const Args& args) {
  constexpr int64_t kMaxRange = 100000;  // as in jinja2's sandbox
  if (args.positional.empty() || args.positional.size() > 3 || !args.named.empty())
    return ctx.fail("range takes 1 to 3 numbers");
  int64_t part[3] = {0, 0, 1};
  for (size_t i = 0; i < args.positional.size(); ++i) part[i] = int_argument(ctx, args.positional[i], 0);
  if (args.positional.size() == 1) std::swap(part[0], part[1]);
  if (ctx.failed()) return {};
  const auto [start, stop, step] = part;
  if (step == 0) return ctx.fail("range() arg 3 must not be zero");
  List* out = ctx.list(ListKind::range);
  // Unsigned differences cannot overflow.
  const uint64_t distance = step > 0 ? (start < stop ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start) : 0)
                                     : (start > stop ? static_cast<uint64_t>(start) - static_cast<uint64_t>(stop) : 0);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t n = distance / stride + (distance % stride != 0 ? 1 : 0);
  if (n > kMaxRange) return ctx.fail(fmt::format("range of more than {} numbers", kMaxRange), Code::out_of_range);
  for (uint64_t i = 0; i < n && !ctx.failed(); ++i)
    ctx.push(out, Value::of(static_cast<int64_t>(static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step))));
  return list_value(out);
}

Value make_dict(Context& ctx, const Value&, const Args& args) {
  Dict* out = ctx.dict();
  if (args.positional.size() > 1) return ctx.fail("dict expected at most 1 argument");
  for (const Value& from : args.positional) {
    if (from.is(Kind::dict)) {
      for (const Dict::Entry& entry : from.dict->entries()) ctx.set(out, entry.key, entry.value);
      continue;
    }
    for (const Value& pair : iterate(ctx, from)->items) {
      if (!pair.is(Kind::list) || pair.list->items.size() != 2)
        return ctx.fail("dict needs pairs of a key and a value");
      ctx.set(out, pair.list->items[0], pair.list->items[1]);
    }
  }
  for (const auto& [name, value] : args.named) ctx.set(out, ctx.string(name, true), value);
  return dict_value(out);
}

Value make_namespace(Context& ctx, const Value& self, const Args& args) {
  Value out = make_dict(ctx, self, args);
  out.kind = out.is(Kind::dict) ? Kind::name_space : out.kind;
  return out;
}

Value raise_exception(Context& ctx, const Value&, const Args& args) {
  if (args.positional.size() != 1) return ctx.fail("raise_exception takes one message");
  const Value message = to_str(ctx, args.positional[0]);
  return ctx.failed() ? Value() : ctx.raise(message.view());
}

// The conversions of C's strftime that do not depend on a locale or a zone. `letter` may follow a '-' (no padding).
std::string date_part(const std::tm& t, char letter, bool padded) {
  static constexpr const char* kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
  static constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                            "July",    "August",   "September", "October", "November", "December"};
  const auto number = [padded](int n, int width) {
    return padded ? fmt::format("{:0{}}", n, width) : std::to_string(n);
  };
  const std::string day = kDays[((t.tm_wday % 7) + 7) % 7];
  const std::string month = kMonths[((t.tm_mon % 12) + 12) % 12];
  const int hour12 = t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12;
  switch (letter) {
    case 'Y':
      return std::to_string(t.tm_year + 1900);
    case 'y':
      return number(t.tm_year % 100, 2);
    case 'm':
      return number(t.tm_mon + 1, 2);
    case 'd':
      return number(t.tm_mday, 2);
    case 'e':
      return padded ? fmt::format("{:2}", t.tm_mday) : std::to_string(t.tm_mday);
    case 'H':
      return number(t.tm_hour, 2);
    case 'I':
      return number(hour12, 2);
    case 'M':
      return number(t.tm_min, 2);
    case 'S':
      return number(t.tm_sec, 2);
    case 'j':
      return number(t.tm_yday + 1, 3);
    case 'p':
      return t.tm_hour < 12 ? "AM" : "PM";
    case 'A':
      return day;
    case 'a':
      return day.substr(0, 3);
    case 'B':
      return month;
    case 'b':
      return month.substr(0, 3);
    case 'F':
      return fmt::format("{}-{:02}-{:02}", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday);
    case 'T':
      return fmt::format("{:02}:{:02}:{:02}", t.tm_hour, t.tm_min, t.tm_sec);
    case '%':
      return "%";
    default:
      return {};
  }
}

Value strftime_now(Context& ctx, const Value&, const Args& args) {
  std::array<Value, 1> a;
  if (!bind_args(ctx, "strftime_now", args, std::array{"format"}, 1, a)) return {};
  if (!a[0].is(Kind::string)) return ctx.fail("strftime_now needs a format");
  if (!ctx.now) return ctx.fail("strftime_now needs today's date, which was not given");
  const std::string_view format = a[0].view();
  if (!ctx.reserve(format.size() * 16)) return {};
  MarkedText out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out.append(a[0].text->text, at, at + 1);
      continue;
    }
    const bool padded = !(at + 1 < format.size() && format[at + 1] == '-');
    at += padded ? 1 : 2;
    const std::string part = at < format.size() ? date_part(*ctx.now, format[at], padded) : "";
    if (part.empty()) return ctx.fail("strftime_now: a conversion that is not supported");
    out.append(part, true);
  }
  return ctx.string(std::move(out));
}

const Builtin kGlobals[] = {{"range", make_range},
                            {"dict", make_dict},
                            {"namespace", make_namespace},
                            {"raise_exception", raise_exception},
                            {"strftime_now", strftime_now}};

Value undefined_item(Context& ctx, const Value& self, const Value& key) {
  if (key.is(Kind::string))
    return ctx.undefined(fmt::format("'{}' has no attribute '{}'", type_with_object(self), key.view()));
  const Value shown = repr(ctx, key);
  if (ctx.failed()) return {};
  return ctx.undefined(fmt::format("{} has no element {}", type_with_object(self), shown.view()));
}

Value item_of_list(Context& ctx, const Value& self, const Value& key) {
  const auto& items = self.list->items;
  const bool indexed = self.list->kind != ListKind::generator && self.list->kind != ListKind::view;
  int64_t index = key.as_int();
  if (index < 0) index += static_cast<int64_t>(items.size());
  if (!indexed || index < 0 || index >= static_cast<int64_t>(items.size())) return undefined_item(ctx, self, key);
  return items[static_cast<size_t>(index)];
}

Value character_of(Context& ctx, const Value& self, const Value& key) {
  const std::string_view text = self.view();
  const int64_t index = key.as_int();
  size_t at = text.size();
  if (index >= 0 && index < static_cast<int64_t>(text.size())) {
    ctx.spend_bytes(static_cast<size_t>(index));
    at = offset_of_code_point(text, static_cast<size_t>(index));
  } else if (index < 0 && index >= -static_cast<int64_t>(text.size())) {
    ctx.spend_bytes(static_cast<size_t>(-index));
    int64_t left = -index;
    for (; left > 0 && at > 0; --left) at = code_point_start(text, at);
    if (left > 0) at = text.size();
  }
  if (at >= text.size()) return undefined_item(ctx, self, key);
  return ctx.substring(self, at, at + code_point_at(text, at).bytes);
}

Value method_of(Context& ctx, const Value& self, const Builtin* method) {
  auto* object = ctx.make<MethodObject>();
  object->self = self;
  object->method = method;
  Value v;
  v.kind = Kind::method;
  v.method = object;
  return v;
}

}  // namespace

const Builtin* find_global(std::string_view name) {
  for (const Builtin& global : kGlobals)
    if (name == global.name) return &global;
  return nullptr;
}

Value get_attribute(Context& ctx, const Value& self, std::string_view name) {
  if (self.is(Kind::undefined))
    return ctx.fail(self.undefined != nullptr ? self.undefined->message : "a value is undefined");
  if (self.is(Kind::name_space)) {
    if (const Value* found = self.dict->find(name)) return *found;
  } else {
    if (const Builtin* method = find_method(self, name)) return method_of(ctx, self, method);
    if (self.is(Kind::dict) && !is_forbidden_method(self, name))
      if (const Value* found = self.dict->find(name)) return *found;
  }
  return ctx.undefined(fmt::format("'{}' has no attribute '{}'", type_with_object(self), name));
}

Value get_item(Context& ctx, const Value& self, const Value& key) {
  if (self.is(Kind::undefined))
    return ctx.fail(self.undefined != nullptr ? self.undefined->message : "a value is undefined");
  if (self.is(Kind::dict)) {
    if (const Value* found = self.dict->find(key)) return *found;
  } else if (key.is_integral() && self.is(Kind::list)) {
    return item_of_list(ctx, self, key);
  } else if (key.is_integral() && self.is(Kind::string)) {
    return character_of(ctx, self, key);
  }
  if (key.is(Kind::string)) return get_attribute(ctx, self, key.view());
  return undefined_item(ctx, self, key);
}

bool bind_arguments(Context& ctx, std::string_view function, const Args& args, const char* const* names, size_t n,
                    size_t n_required, Value* out) {
  if (ctx.failed()) return false;
  if (args.positional.size() > n) {
    ctx.fail(fmt::format("{} takes at most {} arguments ({} given)", function, n, args.positional.size()));
    return false;
  }
  std::copy(args.positional.begin(), args.positional.end(), out);
  for (const auto& [name, value] : args.named) {
    const auto* place = std::find_if(names, names + n, [&name = name](const char* known) { return name == known; });
    if (place == names + n || !out[place - names].is(Kind::missing)) {
      ctx.fail(fmt::format("{} got an unexpected keyword argument '{}'", function, name));
      return false;
    }
    out[place - names] = value;
  }
  for (size_t i = 0; i < n_required; ++i)
    if (out[i].is(Kind::missing)) {
      ctx.fail(fmt::format("{} needs the argument '{}'", function, names[i]));
      return false;
    }
  return true;
}

bool no_arguments(Context& ctx, std::string_view function, const Args& args) {
  if (ctx.failed()) return false;
  if (args.positional.empty() && args.named.empty()) return true;
  ctx.fail(fmt::format("{} takes no arguments", function));
  return false;
}

int64_t int_argument(Context& ctx, const Value& v, int64_t fallback) {
  if (v.is(Kind::missing) || v.is(Kind::none)) return fallback;
  if (v.is_integral()) return v.as_int();
  if (v.is(Kind::undefined) && v.undefined != nullptr)
    ctx.fail(v.undefined->message);
  else
    ctx.fail(fmt::format("'{}' object cannot be interpreted as an integer", type_name(v)));
  return fallback;
}

bool flag_argument(const Value& v, bool fallback) {
  return v.is(Kind::missing) ? fallback : truthy(v);
}

}  // namespace strata::jinja
