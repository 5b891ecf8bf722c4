// The expression half of the interpreter: operators, calls, macros and the `loop` variable.
#include <algorithm>

#include "text/jinja_interpreter.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"

namespace strata::jinja {
namespace {

Value function_value(const Builtin* function) {
  Value v;
  v.kind = Kind::function;
  v.function = function;
  return v;
}

Value loop_cycle(Context& ctx, const Value& self, const Args& args) {
  if (args.positional.empty()) return ctx.fail("no items for cycling given");
  const auto* loop = static_cast<const LoopObject*>(self.object);
  return args.positional[static_cast<size_t>(loop->index0) % args.positional.size()];
}

Value loop_changed(Context& ctx, const Value& self, const Args& args) {
  auto* loop = static_cast<LoopObject*>(self.object);
  List* now = ctx.list(ListKind::tuple);
  for (const Value& v : args.positional) ctx.push(now, v);
  const Value value = list_value(now);
  if (!loop->last_changed.is(Kind::missing) && equal(ctx, loop->last_changed, value)) return Value::of(false);
  loop->last_changed = value;
  return Value::of(true);
}

const Builtin kLoopCycle{"cycle", loop_cycle};
const Builtin kLoopChanged{"changed", loop_changed};

}  // namespace

Value Interpreter::eval(const Expr& e) {
  if (!ctx_.spend(1)) return {};
  if (e.kind == ExprKind::literal) return e.value;
  if (e.kind == ExprKind::name) return eval_name(e);
  if (++depth_ > ctx_.limits().depth) {
    ctx_.line = e.line;
    return ctx_.fail(fmt::format("nested deeper than {} levels", ctx_.limits().depth), Code::out_of_range);
  }
  const Value v = eval_node(e);
  --depth_;
  return ctx_.failed() ? Value() : v;
}

Value Interpreter::eval_node(const Expr& e) {
  const auto kid = [&](size_t i) { return eval(*e.kids[i]); };
  switch (e.kind) {
    case ExprKind::list:
    case ExprKind::tuple:
      return eval_list(e);
    case ExprKind::dict:
      return eval_dict(e);
    case ExprKind::attribute: {
      const Value self = kid(0);
      ctx_.line = e.line;
      return ctx_.failed() ? Value() : attribute(self, e.text);
    }
    case ExprKind::item: {
      const Value self = kid(0);
      const Value key = kid(1);
      ctx_.line = e.line;
      if (ctx_.failed()) return {};
      return self.is(Kind::loop) && key.is(Kind::string) ? attribute(self, key.view()) : get_item(ctx_, self, key);
    }
    case ExprKind::slice:
      return eval_slice(e);
    case ExprKind::call:
      return eval_call(e, nullptr);
    case ExprKind::filter:
      return eval_filter(e);
    case ExprKind::test:
      return eval_test(e);
    case ExprKind::negate:
    case ExprKind::plus: {
      const Value v = kid(0);
      ctx_.line = e.line;
      if (ctx_.failed()) return {};
      if (e.kind == ExprKind::negate) return negate(ctx_, v);
      return v.is(Kind::boolean) ? Value::of(v.as_int()) : (v.is_number() ? v : negate(ctx_, v));
    }
    case ExprKind::logical_not:
      return Value::of(!truthy(kid(0)));
    case ExprKind::logical_and:
    case ExprKind::logical_or: {
      const Value left = kid(0);
      return truthy(left) == (e.kind == ExprKind::logical_and) ? kid(1) : left;
    }
    case ExprKind::arithmetic: {
      const Value a = kid(0);
      const Value b = kid(1);
      ctx_.line = e.line;
      return arithmetic(ctx_, e.ops[0], a, b);
    }
    case ExprKind::concat:
      return eval_concat(e);
    case ExprKind::compare:
      return eval_compare(e);
    case ExprKind::conditional:
      return eval_conditional(e);
    default:
      return {};
  }
}

Value Interpreter::eval_name(const Expr& e) {
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    if (!ctx_.spend(scope->variables.size() / 16)) return {};
    if (const Value* found = scope->find(e.id)) return *found;
  }
  if (const Builtin* global = find_global(e.text)) return function_value(global);
  return ctx_.undefined(fmt::format("'{}' is undefined", e.text));
}

Value Interpreter::eval_list(const Expr& e) {
  List* out = ctx_.list(e.kind == ExprKind::tuple ? ListKind::tuple : ListKind::list);
  for (const ExprPtr& kid : e.kids) ctx_.push(out, eval(*kid));
  return list_value(out);
}

Value Interpreter::eval_dict(const Expr& e) {
  Dict* out = ctx_.dict();
  for (size_t i = 0; i + 1 < e.kids.size(); i += 2) {
    const Value key = eval(*e.kids[i]);
    const Value value = eval(*e.kids[i + 1]);
    ctx_.line = e.line;
    if (ctx_.failed()) return {};
    ctx_.set(out, key, value);
  }
  return dict_value(out);
}

Value Interpreter::eval_slice(const Expr& e) {
  Value part[4];
  for (size_t i = 0; i < 4; ++i) part[i] = e.kids[i] ? eval(*e.kids[i]) : Value::none();
  ctx_.line = e.line;
  return slice(ctx_, part[0], part[1], part[2], part[3]);
}

Value Interpreter::eval_concat(const Expr& e) {
  Value out = to_str(ctx_, eval(*e.kids[0]));
  for (size_t i = 1; i < e.kids.size(); ++i) {
    const Value next = to_str(ctx_, eval(*e.kids[i]));
    if (ctx_.failed()) return {};
    out = ctx_.concat(out, next);
  }
  return out;
}

Value Interpreter::eval_compare(const Expr& e) {
  Value left = eval(*e.kids[0]);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    const Value right = eval(*e.kids[i + 1]);
    ctx_.line = e.line;
    if (ctx_.failed() || !holds(ctx_, e.ops[i], left, right)) return Value::of(false);
    left = right;
  }
  return Value::of(true);
}

Value Interpreter::eval_conditional(const Expr& e) {
  const bool taken = truthy(eval(*e.kids[1]));
  if (ctx_.failed()) return {};
  if (taken) return eval(*e.kids[0]);
  if (e.kids[2]) return eval(*e.kids[2]);
  return ctx_.undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was defined.", e.line));
}

Value Interpreter::eval_filter(const Expr& e) {
  const Value self = e.kids[0] ? eval(*e.kids[0]) : piped_;
  Args args;
  if (!eval_arguments(e.args, args)) return {};
  ctx_.line = e.line;
  if (e.builtin == nullptr) return ctx_.fail(fmt::format("No filter named '{}'.", e.text), Code::unsupported);
  return e.builtin->call(ctx_, self, args);
}

Value Interpreter::eval_test(const Expr& e) {
  const Value self = eval(*e.kids[0]);
  Args args;
  if (!eval_arguments(e.args, args)) return {};
  ctx_.line = e.line;
  if (e.builtin == nullptr) return ctx_.fail(fmt::format("No test named '{}'.", e.text), Code::unsupported);
  return e.builtin->call(ctx_, self, args);
}

bool Interpreter::eval_arguments(const std::vector<Argument>& from, Args& out) {
  for (const Argument& arg : from) {
    const Value v = eval(*arg.value);
    if (ctx_.failed()) return false;
    switch (arg.form) {
      case Argument::Form::positional:
        out.positional.push_back(v);
        break;
      case Argument::Form::named:
        out.named.emplace_back(arg.name, v);
        break;
      case Argument::Form::spread_list:
        for (const Value& item : iterate(ctx_, v)->items) out.positional.push_back(item);
        break;
      case Argument::Form::spread_dict:
        if (!v.is(Kind::dict)) {
          ctx_.fail(fmt::format("argument after ** must be a mapping, not {}", type_name(v)));
          return false;
        }
        for (const Dict::Entry& entry : v.dict->entries()) {
          if (!entry.key.is(Kind::string)) ctx_.fail("keywords must be strings");
          if (ctx_.failed()) return false;
          out.named.emplace_back(std::string(entry.key.view()), entry.value);
        }
    }
    if (!ctx_.reserve((out.positional.size() + out.named.size()) * sizeof(Value))) return false;
  }
  return !ctx_.failed();
}

Value Interpreter::attribute(const Value& self, std::string_view name) {
  if (self.is(Kind::loop)) return loop_attribute(*static_cast<LoopObject*>(self.object), self, name);
  return get_attribute(ctx_, self, name);
}

Value Interpreter::eval_call(const Expr& e, const Value* caller) {
  const Expr& callee = *e.kids[0];
  Value self, function;
  const Builtin* method = nullptr;
  // A method called at once needs no value of its own.
  if (callee.kind == ExprKind::attribute) {
    self = eval(*callee.kids[0]);
    ctx_.line = callee.line;
    if (ctx_.failed()) return {};
    method = find_method(self, callee.text);
    if (method == nullptr) function = attribute(self, callee.text);
  } else {
    function = eval(callee);
  }
  Args args;
  if (!eval_arguments(e.args, args)) return {};
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  ctx_.line = e.line;
  return method != nullptr ? method->call(ctx_, self, args) : call_value(function, args);
}

Value Interpreter::call_value(const Value& callee, const Args& args) {
  switch (callee.kind) {
    case Kind::function:
      return callee.function->call(ctx_, {}, args);
    case Kind::method:
      return callee.method->method->call(ctx_, callee.method->self, args);
    case Kind::macro:
      return call_macro(*static_cast<const MacroObject*>(callee.object), args);
    case Kind::undefined:
      return ctx_.fail(callee.undefined != nullptr ? callee.undefined->message : "a value is undefined");
    default:
      return ctx_.fail(fmt::format("'{}' object is not callable", type_name(callee)));
  }
}

Value Interpreter::call_macro(const MacroObject& macro, const Args& args) {
  Scope* outer = std::exchange(scope_, make_scope(macro.scope));
  Value text;
  if (bind_parameters(macro, args)) {
    Flow flow = Flow::normal;
    text = capture(macro.definition->body, flow);
  }
  scope_ = outer;
  return text;
}

// Gives the macro's parameters their values in the current (the macro's own) scope.
bool Interpreter::bind_parameters(const MacroObject& macro, const Args& args) {
  const Stmt& s = *macro.definition;
  const size_t n = s.parameters.size();
  std::vector<Value> given(n, Value::missing());
  std::copy_n(args.positional.begin(), std::min(n, args.positional.size()), given.begin());
  if (args.positional.size() > n && !s.uses_varargs) {
    ctx_.fail(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, n));
    return false;
  }
  List* surplus = ctx_.list(ListKind::tuple);
  for (size_t i = n; i < args.positional.size(); ++i) ctx_.push(surplus, args.positional[i]);
  Dict* surplus_named = ctx_.dict();
  for (const auto& [name, value] : args.named) {
    size_t at = 0;
    while (at < n && template_.names[static_cast<size_t>(s.parameters[at].id)] != name) ++at;
    if (at < n && given[at].is(Kind::missing)) {
      given[at] = value;
    } else if (name == "caller") {
      scope_->set(kNameCaller, value);
    } else if (at == n && s.uses_kwargs) {
      ctx_.set(surplus_named, ctx_.string(name, true), value);
    } else {
      ctx_.fail(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, name));
      return false;
    }
  }
  if (s.uses_varargs) scope_->set(kNameVarargs, list_value(surplus));
  if (s.uses_kwargs) scope_->set(kNameKwargs, dict_value(surplus_named));
  // Defaults see the parameters before them.
  for (size_t i = 0; i < n && !ctx_.failed(); ++i) {
    const Parameter& parameter = s.parameters[i];
    Value v = given[i];
    if (v.is(Kind::missing) && parameter.value) v = eval(*parameter.value);
    if (v.is(Kind::missing))
      v = ctx_.undefined(
          fmt::format("parameter '{}' was not provided", template_.names[static_cast<size_t>(parameter.id)]));
    scope_->set(parameter.id, v);
  }
  return !ctx_.failed();
}

Value Interpreter::loop_attribute(LoopObject& loop, const Value& self, std::string_view name) {
  const auto method = [&](const Builtin* builtin) {
    auto* object = ctx_.make<MethodObject>();
    object->self = self;
    object->method = builtin;
    Value v;
    v.kind = Kind::method;
    v.method = object;
    return v;
  };
  if (name == "index") return Value::of(loop.index0 + 1);
  if (name == "index0") return Value::of(loop.index0);
  if (name == "first") return Value::of(loop.index0 == 0);
  if (name == "last") return Value::of(!peek(loop));
  if (name == "length") return Value::of(length(loop));
  if (name == "revindex") return Value::of(length(loop) - loop.index0);
  if (name == "revindex0") return Value::of(length(loop) - loop.index0 - 1);
  if (name == "depth") return Value::of(int64_t{1});
  if (name == "depth0") return Value::of(int64_t{0});
  if (name == "previtem") return loop.index0 == 0 ? ctx_.undefined("there is no previous item") : loop.previous;
  if (name == "nextitem") return peek(loop) ? loop.following : ctx_.undefined("there is no next item");
  if (name == "cycle") return method(&kLoopCycle);
  if (name == "changed") return method(&kLoopChanged);
  return ctx_.undefined(fmt::format("'LoopContext object' has no attribute '{}'", name));
}

}  // namespace strata::jinja
