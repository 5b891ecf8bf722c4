#include "text/jinja_operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja_builtins.h"
#include "text/jinja_unicode.h"

namespace strata::jinja {
namespace {

const char* sign_of(Op op) {
  static constexpr const char* kSigns[] = {
      "+", "-", "*", "/", "//", "%", "** or pow()", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSigns[static_cast<int>(op)];
}

Value unsupported(Context& ctx, Op op, const Value& a, const Value& b) {
  for (const Value& v : {a, b})
    if (v.is(Kind::undefined)) return ctx.fail(v.undefined != nullptr ? v.undefined->message : "a value is undefined");
  if (op == Op::add && a.is(Kind::string))
    return ctx.fail(fmt::format("can only concatenate str (not \"{}\") to str", type_name(b)));
  return ctx.fail(
      fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", sign_of(op), type_name(a), type_name(b)));
}

Value integer_power(Context& ctx, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return ctx.fail("0.0 cannot be raised to a negative power");
    return Value::of(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t out = 1;
  bool overflow = false;
  for (int64_t square = base; exponent > 0 && !overflow; exponent /= 2) {
    if (exponent % 2 == 1) overflow = __builtin_mul_overflow(out, square, &out);
    if (exponent > 1) overflow = __builtin_mul_overflow(square, square, &square) || overflow;
  }
  return overflow ? ctx.fail("integer overflow", Code::out_of_range) : Value::of(out);
}

Value integers(Context& ctx, Op op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflow = false;
  if (b == 0 && (op == Op::divide || op == Op::floor_divide || op == Op::modulo)) return ctx.fail("division by zero");
  switch (op) {
    case Op::add:
      overflow = __builtin_add_overflow(a, b, &out);
      break;
    case Op::subtract:
      overflow = __builtin_sub_overflow(a, b, &out);
      break;
    case Op::multiply:
      overflow = __builtin_mul_overflow(a, b, &out);
      break;
    case Op::divide:
      return Value::of(static_cast<double>(a) / static_cast<double>(b));
    case Op::power:
      return integer_power(ctx, a, b);
    default: {
      if (b == -1) {  // the smallest number has no counterpart
        overflow = op == Op::floor_divide && __builtin_sub_overflow(int64_t{0}, a, &out);
        break;
      }
      const int64_t rest = a % b;
      const bool down = rest != 0 && (rest < 0) != (b < 0);
      out = op == Op::floor_divide ? a / b - (down ? 1 : 0) : rest + (down ? b : 0);
    }
  }
  return overflow ? ctx.fail("integer overflow", Code::out_of_range) : Value::of(out);
}

Value reals(Context& ctx, Op op, double a, double b) {
  if (b == 0 && (op == Op::divide || op == Op::floor_divide || op == Op::modulo)) return ctx.fail("division by zero");
  switch (op) {
    case Op::add:
      return Value::of(a + b);
    case Op::subtract:
      return Value::of(a - b);
    case Op::multiply:
      return Value::of(a * b);
    case Op::divide:
      return Value::of(a / b);
    case Op::power:
      if (a == 0 && b < 0) return ctx.fail("0.0 cannot be raised to a negative power");
      if (a < 0 && b != std::floor(b)) return ctx.fail("complex numbers are not supported");
      if (std::isinf(std::pow(a, b)) && std::isfinite(a) && std::isfinite(b))
        return ctx.fail("the result is too large", Code::out_of_range);
      return Value::of(std::pow(a, b));
    default: {
      double rest = std::fmod(a, b);
      if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
      if (rest == 0) rest = std::copysign(0.0, b);
      if (op == Op::modulo) return Value::of(rest);
      const double quotient = (a - rest) / b;
      const double whole = std::floor(quotient);
      return Value::of(quotient - whole > 0.5 ? whole + 1 : whole);
    }
  }
}

Value repeat(Context& ctx, const Value& what, int64_t times) {
  const uint64_t n = times > 0 ? static_cast<uint64_t>(times) : 0;
  const uint64_t size = what.is(Kind::string) ? what.length : what.list->items.size() * sizeof(Value);
  if (n > 0 && size > ctx.limits().value_bytes / n)
    return ctx.fail("a repetition takes too many bytes", Code::out_of_range);
  if (!ctx.spend_bytes(size * n)) return {};
  if (what.is(Kind::string)) {
    if (!ctx.reserve(size * n)) return {};
    MarkedText out;
    for (uint64_t i = 0; i < n && size > 0; ++i) out.append(what.text->text, 0, what.length);
    return ctx.string(std::move(out));
  }
  List* out = ctx.list(what.list->kind);
  for (uint64_t i = 0; i < n && size > 0 && !ctx.failed(); ++i)
    for (size_t k = 0; k < what.list->items.size() && !ctx.failed(); ++k) ctx.push(out, what.list->items[k]);
  return list_value(out);
}

bool is_sequence(const Value& v) {
  return v.is(Kind::string) ||
         (v.is(Kind::list) && (v.list->kind == ListKind::list || v.list->kind == ListKind::tuple));
}

// Python's rule for where a slice begins and ends in n items.
struct Bounds {
  int64_t start, stop, step;
};
Bounds slice_bounds(Context& ctx, int64_t n, const Value& start, const Value& stop, const Value& step) {
  Bounds b{0, 0, int_argument(ctx, step, 1)};
  if (b.step == 0) ctx.fail("slice step cannot be zero");
  b.step = std::clamp<int64_t>(b.step, -INT64_MAX, INT64_MAX);
  const int64_t low = b.step < 0 ? -1 : 0;
  const int64_t high = b.step < 0 ? n - 1 : n;
  const auto place = [&](const Value& v, int64_t fallback) {
    if (v.is(Kind::none) || v.is(Kind::missing)) return fallback;
    int64_t i = std::max(int_argument(ctx, v, 0), -n - 1);
    if (i < 0) i += n;
    return std::clamp(i, low, high);
  };
  b.start = place(start, b.step < 0 ? high : low);
  b.stop = place(stop, b.step < 0 ? low : high);
  return b;
}

Value slice_text(Context& ctx, const Value& v, const Value& start, const Value& stop, const Value& step) {
  const std::string_view text = v.view();
  if (!ctx.spend_bytes(text.size() * 2)) return {};
  const Bounds b = slice_bounds(ctx, static_cast<int64_t>(count_code_points(text)), start, stop, step);
  if (ctx.failed()) return {};
  if (b.step == 1) {
    const size_t from = offset_of_code_point(text, static_cast<size_t>(b.start));
    const auto n = static_cast<size_t>(std::max<int64_t>(b.stop - b.start, 0));
    return ctx.substring(v, from, from + offset_of_code_point(text.substr(from), n));
  }
  std::vector<uint32_t> places;
  if (!ctx.reserve(text.size() * sizeof(uint32_t))) return {};
  for (size_t at = 0; at < text.size(); at += code_point_at(text, at).bytes)
    places.push_back(static_cast<uint32_t>(at));
  MarkedText out;
  for (int64_t i = b.start; b.step > 0 ? i < b.stop : i > b.stop; i += b.step) {
    const size_t at = places[static_cast<size_t>(i)];
    out.append(v.text->text, at, at + code_point_at(text, at).bytes);
    if (b.step > 0 ? b.step >= b.stop - i : b.step <= b.stop - i) break;
  }
  return ctx.string(std::move(out));
}

}  // namespace

Value arithmetic(Context& ctx, Op op, const Value& a, const Value& b) {
  if (ctx.failed()) return {};
  if (a.is_integral() && b.is_integral()) return integers(ctx, op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) {
    const bool big = a.is(Kind::big_integer) || b.is(Kind::big_integer);
    if (big && !a.is(Kind::real) && !b.is(Kind::real) && op != Op::divide)
      return ctx.fail("integer overflow", Code::out_of_range);
    return reals(ctx, op, as_real(a), as_real(b));
  }
  if (op == Op::add && a.is(Kind::string) && b.is(Kind::string)) return ctx.concat(a, b);
  if (op == Op::add && is_sequence(a) && is_sequence(b) && a.is(Kind::list) && b.is(Kind::list) &&
      a.list->kind == b.list->kind) {
    List* out = ctx.list(a.list->kind);
    for (const List* part : {a.list, b.list})
      for (size_t i = 0; i < part->items.size() && !ctx.failed(); ++i) ctx.push(out, part->items[i]);
    ctx.spend(out->items.size() / 16);
    return list_value(out);
  }
  if (op == Op::multiply && is_sequence(a) && b.is_integral()) return repeat(ctx, a, b.as_int());
  if (op == Op::multiply && is_sequence(b) && a.is_integral()) return repeat(ctx, b, a.as_int());
  if (op == Op::modulo && a.is(Kind::string)) return percent_format(ctx, a, b);
  return unsupported(ctx, op, a, b);
}

Value negate(Context& ctx, const Value& v) {
  if (v.is(Kind::real)) return Value::of(-v.real);
  if (v.is_integral() && v.as_int() != INT64_MIN) return Value::of(-v.as_int());
  if (v.is_number()) return ctx.fail("integer overflow", Code::out_of_range);
  if (v.is(Kind::undefined) && v.undefined != nullptr) return ctx.fail(v.undefined->message);
  return ctx.fail(fmt::format("bad operand type for unary -: '{}'", type_name(v)));
}

bool holds(Context& ctx, Op op, const Value& a, const Value& b) {
  if (ctx.failed()) return false;
  if (op == Op::equal) return equal(ctx, a, b);
  if (op == Op::not_equal) return !equal(ctx, a, b);
  if (op == Op::in) return contains(ctx, b, a);
  if (op == Op::not_in) return !contains(ctx, b, a);
  const Order order = compare(ctx, a, b, sign_of(op));
  if (op == Op::less) return order == Order::less;
  if (op == Op::less_equal) return order == Order::less || order == Order::equal;
  if (op == Op::greater) return order == Order::greater;
  return order == Order::greater || order == Order::equal;
}

Value slice(Context& ctx, const Value& v, const Value& start, const Value& stop, const Value& step) {
  if (ctx.failed()) return {};
  if (v.is(Kind::string)) return slice_text(ctx, v, start, stop, step);
  if (v.is(Kind::undefined)) return ctx.fail(v.undefined != nullptr ? v.undefined->message : "a value is undefined");
  if (!v.is(Kind::list) || v.list->kind == ListKind::generator || v.list->kind == ListKind::view)
    return ctx.fail(fmt::format("'{}' object cannot be sliced", type_name(v)));
  const auto& items = v.list->items;
  const Bounds b = slice_bounds(ctx, static_cast<int64_t>(items.size()), start, stop, step);
  List* out = ctx.list(v.list->kind);
  for (int64_t i = b.start; !ctx.failed() && (b.step > 0 ? i < b.stop : i > b.stop); i += b.step) {
    ctx.push(out, items[static_cast<size_t>(i)]);
    if (b.step > 0 ? b.step >= b.stop - i : b.step <= b.stop - i) break;  // one more step might overflow
  }
  return list_value(out);
}

}  // namespace strata::jinja
