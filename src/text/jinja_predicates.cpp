// Tests: value is name(arguments).
#include <cmath>

#include "text/jinja_builtins.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace strata::jinja {
namespace {

template <bool (*kIs)(const Value&)>
Value plain(Context& ctx, const Value& self, const Args& args) {
  return no_arguments(ctx, "the test", args) ? Value::of(kIs(self)) : Value();
}

bool is_defined(const Value& v) {
  return !v.is(Kind::undefined);
}
bool is_undefined(const Value& v) {
  return v.is(Kind::undefined);
}
bool is_none(const Value& v) {
  return v.is(Kind::none);
}
bool is_true(const Value& v) {
  return v.is(Kind::boolean) && v.boolean;
}
bool is_false(const Value& v) {
  return v.is(Kind::boolean) && !v.boolean;
}
bool is_boolean(const Value& v) {
  return v.is(Kind::boolean);
}
bool is_integer(const Value& v) {
  return v.is(Kind::integer) || v.is(Kind::big_integer);
}
bool is_float(const Value& v) {
  return v.is(Kind::real);
}
bool is_number(const Value& v) {
  return v.is_number();
}
bool is_string(const Value& v) {
  return v.is(Kind::string);
}
bool is_mapping(const Value& v) {
  return v.is(Kind::dict);
}
bool is_iterable(const Value& v) {
  return v.is(Kind::string) || v.is(Kind::list) || v.is(Kind::dict) || v.is(Kind::undefined);
}
bool is_callable(const Value& v) {
  return v.is(Kind::macro) || v.is(Kind::method) || v.is(Kind::function) || v.is(Kind::undefined);
}
bool is_sequence(const Value& v) {
  const bool indexed = v.is(Kind::list) && v.list->kind != ListKind::generator && v.list->kind != ListKind::view;
  return indexed || v.is(Kind::string) || v.is(Kind::dict) || v.is(Kind::undefined);
}

template <bool kUpper>
Value is_cased(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "the test", args)) return {};
  const Value text = to_str(ctx, self);
  return ctx.failed() ? Value() : find_method(text, kUpper ? "isupper" : "islower")->call(ctx, text, {});
}

template <Op kOp>
Value compared(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  return bind_args(ctx, "the test", args, std::array{"other"}, 1, a) ? Value::of(holds(ctx, kOp, self, a[0])) : Value();
}

Value remainder_is(Context& ctx, const Value& self, const Value& divisor, int64_t wanted) {
  const Value rest = arithmetic(ctx, Op::modulo, self, divisor);
  return Value::of(equal(ctx, rest, Value::of(wanted)));
}

template <int kWanted>
Value parity(Context& ctx, const Value& self, const Args& args) {
  return no_arguments(ctx, "the test", args) ? remainder_is(ctx, self, Value::of(int64_t{2}), kWanted) : Value();
}

Value divisible(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  return bind_args(ctx, "divisibleby", args, std::array{"num"}, 1, a) ? remainder_is(ctx, self, a[0], 0) : Value();
}

Value same(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  if (!bind_args(ctx, "sameas", args, std::array{"other"}, 1, a) || self.kind != a[0].kind) return Value::of(false);
  if (self.is(Kind::list) || self.is(Kind::dict) || self.is(Kind::name_space))
    return Value::of(self.object == a[0].object);
  return Value::of(equal(ctx, self, a[0]));
}

Value filter_exists(Context&, const Value& self, const Args&) {
  return Value::of(self.is(Kind::string) && find_filter(self.view()) != nullptr);
}
Value test_exists(Context&, const Value& self, const Args&) {
  return Value::of(self.is(Kind::string) && find_test(self.view()) != nullptr);
}

const Builtin kTests[] = {
    {"defined", plain<is_defined>},
    {"undefined", plain<is_undefined>},
    {"none", plain<is_none>},
    {"true", plain<is_true>},
    {"false", plain<is_false>},
    {"boolean", plain<is_boolean>},
    {"integer", plain<is_integer>},
    {"float", plain<is_float>},
    {"number", plain<is_number>},
    {"string", plain<is_string>},
    {"mapping", plain<is_mapping>},
    {"iterable", plain<is_iterable>},
    {"sequence", plain<is_sequence>},
    {"callable", plain<is_callable>},
    {"upper", is_cased<true>},
    {"lower", is_cased<false>},
    {"odd", parity<1>},
    {"even", parity<0>},
    {"divisibleby", divisible},
    {"sameas", same},
    {"in", compared<Op::in>},
    {"eq", compared<Op::equal>},
    {"equalto", compared<Op::equal>},
    {"==", compared<Op::equal>},
    {"ne", compared<Op::not_equal>},
    {"!=", compared<Op::not_equal>},
    {"lt", compared<Op::less>},
    {"lessthan", compared<Op::less>},
    {"<", compared<Op::less>},
    {"le", compared<Op::less_equal>},
    {"<=", compared<Op::less_equal>},
    {"gt", compared<Op::greater>},
    {"greaterthan", compared<Op::greater>},
    {">", compared<Op::greater>},
    {"ge", compared<Op::greater_equal>},
    {">=", compared<Op::greater_equal>},
    {"filter", filter_exists},
    {"test", test_exists},
};

}  // namespace

const Builtin* find_test(std::string_view name) {
  for (const Builtin& test : kTests)
    if (name == test.name) return &test;
  return nullptr;
}

}  // namespace strata::jinja
