// Filters over lists, dicts and what else can be iterated.
#include <algorithm>
#include <charconv>
#include <set>

#include "text/jinja_builtins.h"
#include "text/jinja_filter_tables.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace strata::jinja {
namespace {

// "a.b.0" as the keys to look up one after the other.
std::vector<Value> attribute_path(Context& ctx, const Value& attribute) {
  std::vector<Value> parts;
  if (!attribute.is(Kind::string)) {
    if (!attribute.is(Kind::missing) && !attribute.is(Kind::none)) parts.push_back(attribute);
    return parts;
  }
  const std::string text(attribute.view());
  for (size_t begin = 0; begin <= text.size() && !ctx.failed();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    int64_t index = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number =
        !part.empty() && part[0] != '-' && read.ec == std::errc() && read.ptr == part.data() + part.size();
    parts.push_back(number ? Value::of(index) : ctx.string(part, true));
    begin = end + 1;
  }
  return parts;
}

Value follow(Context& ctx, Value item, const std::vector<Value>& path, const Value& fallback) {
  for (const Value& part : path) {
    item = get_item(ctx, item, part);
    if (ctx.failed()) return {};
    if (item.is(Kind::undefined) && !fallback.is(Kind::missing) && !fallback.is(Kind::none)) item = fallback;
  }
  return item;
}

Value folded(Context& ctx, const Value& v, bool case_sensitive) {
  return v.is(Kind::string) && !case_sensitive ? change_case(ctx, v, Case::lower) : v;
}

Value first(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "first", args)) return {};
  if (self.is(Kind::string) && self.length > 0) return ctx.substring(self, 0, code_point_at(self.view(), 0).bytes);
  const List* items = iterate(ctx, self);
  return items->items.empty() ? ctx.undefined("No first item, sequence was empty.") : items->items.front();
}

Value last(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "last", args)) return {};
  if (self.is(Kind::string) && self.length > 0)
    return ctx.substring(self, code_point_start(self.view(), self.length), self.length);
  if (self.is(Kind::list) && self.list->kind == ListKind::generator)
    return ctx.fail("'generator' object is not reversible");
  const List* items = iterate(ctx, self);
  return items->items.empty() ? ctx.undefined("No last item, sequence was empty.") : items->items.back();
}

Value join(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 2> a;
  if (!bind_args(ctx, "join", args, std::array{"d", "attribute"}, 0, a)) return {};
  const Value separator = a[0].is(Kind::missing) ? ctx.string("", true) : to_str(ctx, a[0]);
  const List* items = iterate(ctx, self);
  if (ctx.failed()) return {};
  if (a[1].is(Kind::missing) || a[1].is(Kind::none)) return join_items(ctx, *items, separator, false);
  const std::vector<Value> path = attribute_path(ctx, a[1]);
  List* found = ctx.list();
  for (size_t i = 0; i < items->items.size() && !ctx.failed(); ++i)
    ctx.push(found, follow(ctx, items->items[i], path, Value::missing()));
  return ctx.failed() ? Value() : join_items(ctx, *found, separator, false);
}

Value to_list(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "list", args)) return {};
  const List* items = iterate(ctx, self);
  List* out = ctx.list();
  for (size_t i = 0; i < items->items.size() && !ctx.failed(); ++i) ctx.push(out, items->items[i]);
  return list_value(out);
}

Value items(Context& ctx, const Value& self, const Args& args) {
  if (self.is(Kind::undefined)) return list_value(ctx.list(ListKind::generator));
  if (!self.is(Kind::dict)) return ctx.fail("Can only get item pairs from a mapping.");
  Value out = find_method(self, "items")->call(ctx, self, args);
  if (out.is(Kind::list)) out.list->kind = ListKind::generator;
  return out;
}

Value reverse(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "reverse", args)) return {};
  if (self.is(Kind::string)) return slice(ctx, self, Value::none(), Value::none(), Value::of(int64_t{-1}));
  const List* items = iterate(ctx, self);
  List* out = ctx.list(ListKind::generator);
  for (size_t i = items->items.size(); i > 0 && !ctx.failed(); --i) ctx.push(out, items->items[i - 1]);
  return list_value(out);
}

Value map(Context& ctx, const Value& self, const Args& args) {
  List* out = ctx.list(ListKind::generator);
  if (!truthy(self)) return list_value(out);
  const List* items = iterate(ctx, self);
  if (ctx.failed()) return {};
  if (args.positional.empty()) {
    std::array<Value, 2> a;
    if (!bind_args(ctx, "map", args, std::array{"attribute", "default"}, 1, a)) return {};
    const std::vector<Value> path = attribute_path(ctx, a[0]);
    for (size_t i = 0; i < items->items.size() && !ctx.failed(); ++i)
      ctx.push(out, follow(ctx, items->items[i], path, a[1]));
    return list_value(out);
  }
  const Value& name = args.positional[0];
  const Builtin* filter = name.is(Kind::string) ? find_filter(name.view()) : nullptr;
  if (filter == nullptr)
    return ctx.fail(fmt::format("No filter named '{}'.", name.is(Kind::string) ? name.view() : type_name(name)));
  Args rest = args;
  rest.positional.erase(rest.positional.begin());
  for (size_t i = 0; i < items->items.size() && !ctx.failed(); ++i)
    ctx.push(out, filter->call(ctx, items->items[i], rest));
  return list_value(out);
}

template <bool kByAttribute, bool kWanted>
Value choose(Context& ctx, const Value& self, const Args& args) {
  List* out = ctx.list(ListKind::generator);
  if (!truthy(self)) return list_value(out);
  Args rest = args;
  std::vector<Value> path;
  if (kByAttribute) {
    if (rest.positional.empty()) return ctx.fail("Missing parameter for attribute name");
    path = attribute_path(ctx, rest.positional[0]);
    rest.positional.erase(rest.positional.begin());
  }
  const Builtin* test = nullptr;
  if (!rest.positional.empty()) {
    const Value& name = rest.positional[0];
    test = name.is(Kind::string) ? find_test(name.view()) : nullptr;
    if (test == nullptr)
      return ctx.fail(fmt::format("No test named '{}'.", name.is(Kind::string) ? name.view() : type_name(name)));
    rest.positional.erase(rest.positional.begin());
  }
  const List* items = iterate(ctx, self);
  for (size_t i = 0; i < items->items.size() && !ctx.failed(); ++i) {
    const Value v = kByAttribute ? follow(ctx, items->items[i], path, Value::missing()) : items->items[i];
    if (ctx.failed()) break;
    if (truthy(test == nullptr ? v : test->call(ctx, v, rest)) == kWanted) ctx.push(out, items->items[i]);
  }
  return list_value(out);
}

Value sort(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 3> a;
  if (!bind_args(ctx, "sort", args, std::array{"reverse", "case_sensitive", "attribute"}, 0, a)) return {};
  const bool case_sensitive = flag_argument(a[1], false);
  // "a,b" sorts by a, then by b.
  std::vector<std::vector<Value>> paths;
  const std::string text(a[2].is(Kind::string) ? a[2].view() : "");
  for (size_t begin = 0; begin <= text.size() && a[2].is(Kind::string);) {
    const size_t end = std::min(text.find(',', begin), text.size());
    paths.push_back(attribute_path(ctx, ctx.string(text.substr(begin, end - begin), true)));
    begin = end + 1;
  }
  if (!a[2].is(Kind::string)) paths.push_back(attribute_path(ctx, a[2]));
  const List* items = iterate(ctx, self);
  std::vector<Value> keys;
  for (size_t i = 0; i < items->items.size() && !ctx.failed(); ++i) {
    List* key = ctx.list();
    for (const auto& path : paths)
      ctx.push(key, folded(ctx, follow(ctx, items->items[i], path, Value::missing()), case_sensitive));
    keys.push_back(list_value(key));
  }
  if (ctx.failed()) return {};
  List* out = ctx.list();
  for (const size_t i : sorted_order(ctx, keys, flag_argument(a[0], false))) ctx.push(out, items->items[i]);
  return list_value(out);
}

Value unique(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 2> a;
  if (!bind_args(ctx, "unique", args, std::array{"case_sensitive", "attribute"}, 0, a)) return {};
  const std::vector<Value> path = attribute_path(ctx, a[1]);
  const List* items = iterate(ctx, self);
  List* out = ctx.list(ListKind::generator);
  Dict* seen = ctx.dict();
  for (size_t i = 0; i < items->items.size() && !ctx.failed(); ++i) {
    const Value key = folded(ctx, follow(ctx, items->items[i], path, Value::missing()), flag_argument(a[0], false));
    if (ctx.failed()) break;
    if (seen->find(key) != nullptr) continue;
    ctx.set(seen, key, Value::none());
    ctx.push(out, items->items[i]);
  }
  return list_value(out);
}

Value dictsort(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 3> a;
  if (!bind_args(ctx, "dictsort", args, std::array{"case_sensitive", "by", "reverse"}, 0, a)) return {};
  if (!self.is(Kind::dict)) return ctx.fail(fmt::format("dictsort needs a dict, not {}", type_name(self)));
  const std::string_view by = a[1].is(Kind::string) ? a[1].view() : "key";
  if (by != "key" && by != "value") return ctx.fail("You can only sort by either \"key\" or \"value\"");
  const Value pairs = find_method(self, "items")->call(ctx, self, {});
  if (ctx.failed()) return {};
  std::vector<Value> keys;
  for (const Value& pair : pairs.list->items)
    keys.push_back(folded(ctx, pair.list->items[by == "key" ? 0 : 1], flag_argument(a[0], false)));
  List* out = ctx.list();
  for (const size_t i : sorted_order(ctx, keys, flag_argument(a[2], false))) ctx.push(out, pairs.list->items[i]);
  return list_value(out);
}

Value sum(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 2> a;
  if (!bind_args(ctx, "sum", args, std::array{"attribute", "start"}, 0, a)) return {};
  const std::vector<Value> path = attribute_path(ctx, a[0]);
  Value total = a[1].is(Kind::missing) ? Value::of(int64_t{0}) : a[1];
  if (total.is(Kind::string)) return ctx.fail("sum() can't sum strings");
  const List* items = iterate(ctx, self);
  for (size_t i = 0; i < items->items.size() && !ctx.failed(); ++i)
    total = arithmetic(ctx, Op::add, total, follow(ctx, items->items[i], path, Value::missing()));
  return total;
}

template <bool kLargest>
Value extreme(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 2> a;
  if (!bind_args(ctx, "min and max", args, std::array{"case_sensitive", "attribute"}, 0, a)) return {};
  const std::vector<Value> path = attribute_path(ctx, a[1]);
  const List* items = iterate(ctx, self);
  if (items->items.empty()) return ctx.undefined("No aggregated item, sequence was empty.");
  Value best, best_key;
  for (size_t i = 0; i < items->items.size() && !ctx.failed(); ++i) {
    const Value key = folded(ctx, follow(ctx, items->items[i], path, Value::missing()), flag_argument(a[0], false));
    if (ctx.failed()) break;
    if (i == 0 || compare(ctx, key, best_key, kLargest ? ">" : "<") == (kLargest ? Order::greater : Order::less)) {
      best = items->items[i];
      best_key = key;
    }
  }
  return best;
}

const Builtin kSequenceFilters[] = {
    {"first", first},
    {"last", last},
    {"join", join},
    {"list", to_list},
    {"items", items},
    {"reverse", reverse},
    {"map", map},
    {"select", choose<false, true>},
    {"reject", choose<false, false>},
    {"selectattr", choose<true, true>},
    {"rejectattr", choose<true, false>},
    {"sort", sort},
    {"unique", unique},
    {"dictsort", dictsort},
    {"sum", sum},
    {"min", extreme<false>},
    {"max", extreme<true>},
};

}  // namespace

const Builtin* find_sequence_filter(std::string_view name) {
  for (const Builtin& filter : kSequenceFilters)
    if (name == filter.name) return &filter;
  return nullptr;
}

}  // namespace strata::jinja
