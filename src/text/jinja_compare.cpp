// Truth, equality, order, membership and iteration of template values, as Python defines them.
#include <algorithm>
#include <cmath>

#include "text/jinja_unicode.h"
#include "text/jinja_value.h"

namespace strata::jinja {
namespace {

Order order_of(double a, double b) {
  if (a < b) return Order::less;
  if (a > b) return Order::greater;
  return a == b ? Order::equal : Order::unordered;
}

Order reversed(Order order) {
  if (order == Order::less) return Order::greater;
  return order == Order::greater ? Order::less : order;
}

// Exact, also where the integer has more digits than a double holds.
Order order_of(int64_t a, double b) {
  if (std::isnan(b)) return Order::unordered;
  if (b >= 9223372036854775808.0) return Order::less;
  if (b < -9223372036854775808.0) return Order::greater;
  const auto whole = static_cast<int64_t>(b);
  if (a != whole) return a < whole ? Order::less : Order::greater;
  return order_of(0.0, b - static_cast<double>(whole));
}

// The same for integers from 2^63 on.
Order order_of_big(uint64_t a, double b) {
  if (std::isnan(b)) return Order::unordered;
  if (b >= 18446744073709551616.0) return Order::less;
  if (b < 9223372036854775808.0) return Order::greater;
  const auto whole = static_cast<uint64_t>(b);
  return a == whole ? Order::equal : (a < whole ? Order::less : Order::greater);
}

Order order_of_numbers(const Value& a, const Value& b) {
  if (a.is(Kind::big_integer) && b.is(Kind::big_integer))
    return a.big == b.big ? Order::equal : (a.big < b.big ? Order::less : Order::greater);
  if (a.is(Kind::big_integer) && b.is_integral()) return Order::greater;
  if (b.is(Kind::big_integer) && a.is_integral()) return Order::less;
  if (a.is_integral() && b.is_integral())
    return a.as_int() == b.as_int() ? Order::equal : (a.as_int() < b.as_int() ? Order::less : Order::greater);
  if (a.is_integral() && b.is(Kind::real)) return order_of(a.as_int(), b.real);
  if (a.is(Kind::real) && b.is_integral()) return reversed(order_of(b.as_int(), a.real));
  if (a.is(Kind::big_integer)) return order_of_big(a.big, b.real);
  if (b.is(Kind::big_integer)) return reversed(order_of_big(b.big, a.real));
  return order_of(a.real, b.real);
}

bool equal_dicts(Context& ctx, const Dict& a, const Dict& b, int depth) {
  if (a.entries().size() != b.entries().size()) return false;
  for (const Dict::Entry& entry : a.entries()) {
    const Value* other = b.find(entry.key);
    if (other == nullptr || !equal(ctx, entry.value, *other, depth + 1)) return false;
  }
  return true;
}

bool too_deep(Context& ctx, int depth) {
  if (depth <= ctx.limits().depth) return false;
  ctx.fail(fmt::format("values nested deeper than {} levels", ctx.limits().depth), Code::out_of_range);
  return true;
}

}  // namespace

double as_real(const Value& v) {
  if (v.is(Kind::real)) return v.real;
  return v.is(Kind::big_integer) ? static_cast<double>(v.big) : static_cast<double>(v.as_int());
}

bool truthy(const Value& v) {
  switch (v.kind) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return v.boolean;
    case Kind::integer:
      return v.integer != 0;
    case Kind::real:
      return v.real != 0;
    case Kind::string:
      return v.length != 0;
    case Kind::list:
      return v.list->kind == ListKind::generator || !v.list->items.empty();
    case Kind::dict:
      return !v.dict->entries().empty();
    default:
      return true;
  }
}

const char* type_name(const Value& v) {
  switch (v.kind) {
    case Kind::missing:
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
    case Kind::big_integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return "str";
    case Kind::list: {
      static constexpr const char* kNames[] = {"list", "tuple", "range", "dict view", "generator"};
      return kNames[static_cast<int>(v.list->kind)];
    }
    case Kind::dict:
      return "dict";
    case Kind::name_space:
      return "Namespace";
    case Kind::macro:
      return "Macro";
    case Kind::loop:
      return "LoopContext";
    default:
      return "function";
  }
}

std::string type_with_object(const Value& v) {
  if (v.is(Kind::none)) return "None";
  return std::string(type_name(v)) + " object";
}

bool equal(Context& ctx, const Value& a, const Value& b, int depth) {
  if (too_deep(ctx, depth) || !ctx.spend(1)) return false;
  if (a.is_number() && b.is_number()) return order_of_numbers(a, b) == Order::equal;
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::string:
      ctx.spend_bytes(a.length == b.length ? a.length : 0);
      return a.view() == b.view();
    case Kind::list: {
      if (a.list == b.list) return true;
      const auto& x = a.list->items;
      const auto& y = b.list->items;
      if (a.list->kind != b.list->kind || a.list->kind == ListKind::generator || x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i)
        if (!equal(ctx, x[i], y[i], depth + 1)) return false;
      return true;
    }
    case Kind::dict:
      return a.dict == b.dict || equal_dicts(ctx, *a.dict, *b.dict, depth);
    case Kind::undefined:
    case Kind::none:
    case Kind::missing:
      return true;
    default:
      return a.object == b.object;
  }
}

Order compare(Context& ctx, const Value& a, const Value& b, const char* sign, int depth) {
  if (too_deep(ctx, depth) || !ctx.spend(1)) return Order::unordered;
  if (a.is_number() && b.is_number()) return order_of_numbers(a, b);
  if (a.is(Kind::string) && b.is(Kind::string)) {
    ctx.spend_bytes(std::min(a.length, b.length));
    const int c = a.view().compare(b.view());
    return c == 0 ? Order::equal : (c < 0 ? Order::less : Order::greater);
  }
  const auto sequence = [](const Value& v) {
    return v.is(Kind::list) && (v.list->kind == ListKind::list || v.list->kind == ListKind::tuple);
  };
  if (sequence(a) && sequence(b) && a.list->kind == b.list->kind) {
    const auto& x = a.list->items;
    const auto& y = b.list->items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (equal(ctx, x[i], y[i], depth + 1)) continue;
      return ctx.failed() ? Order::unordered : compare(ctx, x[i], y[i], sign, depth + 1);
    }
    return x.size() == y.size() ? Order::equal : (x.size() < y.size() ? Order::less : Order::greater);
  }
  for (const Value& v : {a, b})
    if (v.is(Kind::undefined)) {
      ctx.fail(v.undefined != nullptr ? v.undefined->message : "a value is undefined");
      return Order::unordered;
    }
  ctx.fail(fmt::format("'{}' not supported between instances of '{}' and '{}'", sign, type_name(a), type_name(b)));
  return Order::unordered;
}

// A merge sort of our own: with values that have no order, or NaN, a library sort may read outside its range.
std::vector<size_t> sorted_order(Context& ctx, const std::vector<Value>& keys, bool descending) {
  const size_t n = keys.size();
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  std::vector<size_t> merged(n);
  for (size_t width = 1; width < n && !ctx.failed(); width *= 2) {
    for (size_t begin = 0; begin < n; begin += 2 * width) {
      const size_t middle = std::min(begin + width, n);
      const size_t end = std::min(begin + 2 * width, n);
      size_t left = begin, right = middle;
      for (size_t out = begin; out < end; ++out) {
        const bool take_right =
            right < end && (left == middle || compare(ctx, keys[order[descending ? left : right]],
                                                      keys[order[descending ? right : left]], "<") == Order::less);
        merged[out] = take_right ? order[right++] : order[left++];
      }
    }
    order.swap(merged);
  }
  return order;
}

bool contains(Context& ctx, const Value& container, const Value& item) {
  switch (container.kind) {
    case Kind::undefined:
      return false;
    case Kind::string:
      if (!item.is(Kind::string)) {
        ctx.fail(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
        return false;
      }
      return ctx.spend_bytes(container.length) && find_text(container.view(), item.view()) != kNotFound;
    case Kind::list:
      for (const Value& v : iterate(ctx, container)->items)
        if (equal(ctx, v, item) || ctx.failed()) return !ctx.failed();
      return false;
    case Kind::dict:
      if (item.is(Kind::dict) || (item.is(Kind::list) && item.list->kind != ListKind::tuple)) {
        ctx.fail(fmt::format("unhashable type: '{}'", type_name(item)));
        return false;
      }
      return container.dict->find(item) != nullptr;
    default:
      ctx.fail(fmt::format("argument of type '{}' is not iterable", type_name(container)));
      return false;
  }
}

List* iterate(Context& ctx, const Value& v) {
  if (v.is(Kind::list) && v.list->kind != ListKind::generator) return v.list;
  List* out = ctx.list();
  switch (v.kind) {
    case Kind::undefined:
      break;
    case Kind::list:
      out->items.swap(v.list->items);
      break;
    case Kind::string:
      for (size_t at = 0; at < v.length && !ctx.failed();) {
        const size_t bytes = code_point_at(v.view(), at).bytes;
        ctx.push(out, ctx.substring(v, at, at + bytes));
        at += bytes;
      }
      break;
    case Kind::dict:
      for (const Dict::Entry& entry : v.dict->entries()) ctx.push(out, entry.key);
      break;
    default:
      ctx.fail(fmt::format("'{}' object is not iterable", type_name(v)));
  }
  return out;
}

int64_t length_of(Context& ctx, const Value& v) {
  switch (v.kind) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      ctx.spend_bytes(v.length);
      return static_cast<int64_t>(count_code_points(v.view()));
    case Kind::list:
      if (v.list->kind == ListKind::generator) break;
      return static_cast<int64_t>(v.list->items.size());
    case Kind::dict:
      return static_cast<int64_t>(v.dict->entries().size());
    default:
      break;
  }
  ctx.fail(fmt::format("object of type '{}' has no len()", type_name(v)));
  return 0;
}

}  // namespace strata::jinja
