#include "text/jinja_interpreter.h"

#include <unordered_map>

#include "text/jinja_print.h"

namespace strata::jinja {

Interpreter::Interpreter(const Template& source, Context& ctx) : template_(source), ctx_(ctx) {
  scope_ = make_scope(nullptr);
}

MarkedText Interpreter::run() {
  run(template_.body);
  return std::move(output_);
}

Scope* Interpreter::make_scope(Scope* parent) {
  auto* scope = ctx_.make<Scope>();
  scope->parent = parent;
  return scope;
}

void Interpreter::emit(std::string_view text) {
  if (ctx_.failed()) return;
  if (out_ != &output_) {
    if (!ctx_.reserve(text.size())) return;
  } else if (text.size() > ctx_.limits().output_bytes - output_.size()) {
    ctx_.fail(fmt::format("the text would be longer than {} bytes", ctx_.limits().output_bytes), Code::out_of_range);
    return;
  }
  out_->append(text, true);
}

void Interpreter::emit(const Value& v) {
  const Value text = v.is(Kind::undefined) ? v : to_str(ctx_, v);
  if (ctx_.failed() || !text.is(Kind::string)) return;
  if (out_ != &output_) {
    if (!ctx_.reserve(text.length)) return;
  } else if (text.length > ctx_.limits().output_bytes - output_.size()) {
    ctx_.fail(fmt::format("the text would be longer than {} bytes", ctx_.limits().output_bytes), Code::out_of_range);
    return;
  }
  out_->append(text.text->text, 0, text.length);
}

Value Interpreter::capture(const Body& body, Flow& flow) {
  MarkedText text;
  MarkedText* outer = std::exchange(out_, &text);
  flow = run(body);
  out_ = outer;
  return ctx_.failed() ? Value() : ctx_.string(std::move(text));
}

Interpreter::Flow Interpreter::run(const Body& body) {
  for (const StmtPtr& s : body) {
    const Flow flow = run(*s);
    if (flow != Flow::normal || ctx_.failed()) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_in_scope(const Body& body) {
  Scope* outer = std::exchange(scope_, make_scope(scope_));
  const Flow flow = run(body);
  scope_ = outer;
  return flow;
}

Interpreter::Flow Interpreter::run(const Stmt& s) {
  ctx_.line = s.line;
  if (!ctx_.spend(1)) return Flow::normal;
  if (++depth_ > ctx_.limits().depth) {
    ctx_.fail(fmt::format("nested deeper than {} levels", ctx_.limits().depth), Code::out_of_range);
    return Flow::normal;
  }
  Flow flow = Flow::normal;
  switch (s.kind) {
    case StmtKind::text:
      emit(s.owned);
      break;
    case StmtKind::output:
      emit(eval(*s.expr));
      break;
    case StmtKind::set:
      assign(*s.target, eval(*s.expr));
      break;
    case StmtKind::set_block:
      flow = set_block(s);
      break;
    case StmtKind::if_chain:
      flow = if_chain(s);
      break;
    case StmtKind::for_loop:
      flow = for_loop(s);
      break;
    case StmtKind::macro:
      define_macro(s);
      break;
    case StmtKind::call_block:
      call_block(s);
      break;
    case StmtKind::filter_block:
      flow = filter_block(s);
      break;
    case StmtKind::with:
      flow = with(s);
      break;
    case StmtKind::scope:
      flow = run_in_scope(s.body);
      break;
    case StmtKind::loop_break:
      flow = Flow::loop_break;
      break;
    case StmtKind::loop_continue:
      flow = Flow::loop_continue;
      break;
  }
  --depth_;
  return flow;
}

Interpreter::Flow Interpreter::if_chain(const Stmt& s) {
  for (const Branch& branch : s.branches) {
    const bool taken = truthy(eval(*branch.test));
    if (ctx_.failed()) return Flow::normal;
    if (taken) return run(branch.body);
  }
  return run(s.otherwise);
}

Interpreter::Flow Interpreter::for_loop(const Stmt& s) {
  const Value source = eval(*s.expr);
  ctx_.line = s.line;
  List* items = ctx_.failed() ? nullptr : iterate(ctx_, source);
  if (ctx_.failed()) return Flow::normal;
  auto* loop = ctx_.make<LoopObject>();
  loop->statement = &s;
  loop->items = items;
  loop->filtered = s.test != nullptr;
  Value loop_value;
  loop_value.kind = Kind::loop;
  loop_value.object = loop;
  Scope* outer = scope_;
  Scope* inner = make_scope(outer);
  Flow flow = Flow::normal;
  bool completed = false;  // as in jinja2, `else` runs unless some turn came to the end of the body
  while (flow != Flow::loop_break && advance(*loop)) {
    if (inner->captured) inner = make_scope(outer);
    inner->variables.clear();
    inner->set(kNameLoop, loop_value);
    scope_ = inner;
    assign(*s.target, loop->current);
    flow = run(s.body);
    completed = completed || flow == Flow::normal;
    scope_ = outer;
  }
  if (!completed && !ctx_.failed()) return run_in_scope(s.otherwise);
  return Flow::normal;
}

// The next item that the loop's test lets through.
bool Interpreter::take_item(LoopObject& loop, Value& out) {
  while (loop.next < loop.items->items.size() && ctx_.spend(1)) {
    out = loop.items->items[loop.next++];
    if (!loop.filtered) return true;
    Scope* outer = std::exchange(scope_, make_scope(scope_));
    assign(*loop.statement->target, out);
    const bool passes = truthy(eval(*loop.statement->test));
    scope_ = outer;
    if (ctx_.failed()) return false;
    if (passes) return true;
  }
  return false;
}

bool Interpreter::advance(LoopObject& loop) {
  Value item = loop.following;
  if (ctx_.failed() || (loop.peeked ? item.is(Kind::missing) : !take_item(loop, item))) return false;
  loop.previous = loop.current;
  loop.current = item;
  loop.peeked = false;
  ++loop.index0;
  return true;
}

// Whether another item follows; it is kept in `following`.
bool Interpreter::peek(LoopObject& loop) {
  if (!loop.peeked) {
    loop.peeked = true;
    loop.following = Value::missing();
    Value item;
    if (take_item(loop, item)) loop.following = item;
  }
  return !loop.following.is(Kind::missing);
}

int64_t Interpreter::length(LoopObject& loop) {
  if (loop.filtered) {
    List* rest = ctx_.list();
    for (Value item; take_item(loop, item);) ctx_.push(rest, item);
    loop.items = rest;
    loop.next = 0;
    loop.filtered = false;
  }
  const bool waiting = loop.peeked && !loop.following.is(Kind::missing);
  return loop.index0 + 1 + (waiting ? 1 : 0) + static_cast<int64_t>(loop.items->items.size() - loop.next);
}

Interpreter::Flow Interpreter::set_block(const Stmt& s) {
  Flow flow = Flow::normal;
  Scope* outer = std::exchange(scope_, make_scope(scope_));
  Value text = capture(s.body, flow);
  scope_ = outer;
  piped_ = text;
  if (s.expr) text = eval(*s.expr);
  assign(*s.target, text);
  return flow;
}

Interpreter::Flow Interpreter::filter_block(const Stmt& s) {
  Flow flow = Flow::normal;
  Scope* outer = std::exchange(scope_, make_scope(scope_));
  piped_ = capture(s.body, flow);
  scope_ = outer;
  if (!ctx_.failed()) emit(eval(*s.expr));
  return flow;
}

Interpreter::Flow Interpreter::with(const Stmt& s) {
  std::vector<Value> values;
  for (const Parameter& parameter : s.parameters) values.push_back(eval(*parameter.value));
  Scope* outer = std::exchange(scope_, make_scope(scope_));
  for (size_t i = 0; i < values.size(); ++i) assign(*s.parameters[i].target, values[i]);
  const Flow flow = run(s.body);
  scope_ = outer;
  return flow;
}

Value Interpreter::make_macro(const Stmt& s, std::string name) {
  auto* macro = ctx_.make<MacroObject>();
  macro->definition = &s;
  macro->scope = scope_;
  macro->name = std::move(name);
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) scope->captured = true;
  Value v;
  v.kind = Kind::macro;
  v.object = macro;
  return v;
}

void Interpreter::define_macro(const Stmt& s) {
  scope_->set(s.id, make_macro(s, template_.names[static_cast<size_t>(s.id)]));
}

void Interpreter::call_block(const Stmt& s) {
  const Value caller = make_macro(s, "caller");
  emit(eval_call(*s.expr, &caller));
}

void Interpreter::assign(const Expr& target, const Value& v) {
  if (ctx_.failed()) return;
  if (target.kind == ExprKind::name) return scope_->set(target.id, v);
  if (target.kind == ExprKind::tuple) return assign_tuple(target, v);
  const Value owner = eval(*target.kids[0]);
  ctx_.line = target.line;
  if (ctx_.failed()) return;
  if (!owner.is(Kind::name_space)) {
    ctx_.fail("cannot assign attribute on non-namespace object");
    return;
  }
  ctx_.set(owner.dict, ctx_.string(target.text, true), v);
}

void Interpreter::assign_tuple(const Expr& target, const Value& v) {
  if (v.is(Kind::undefined) && v.undefined != nullptr) {
    ctx_.fail(v.undefined->message);
    return;
  }
  const List* items = iterate(ctx_, v);
  if (ctx_.failed()) return;
  const size_t n = target.kids.size();
  if (items->items.size() != n) {
    const char* how = items->items.size() < n ? "not enough" : "too many";
    ctx_.fail(fmt::format("{} values to unpack (expected {}, got {})", how, n, items->items.size()));
    return;
  }
  for (size_t i = 0; i < n; ++i) assign(*target.kids[i], items->items[i]);
}

Outcome render(const Template& source, const std::vector<Input>& inputs, const std::optional<std::tm>& now,
               const Limits& limits) {
  Context ctx(limits, source.name);
  ctx.now = now;
  Interpreter interpreter(source, ctx);
  std::unordered_map<std::string_view, int> ids;
  for (size_t i = 0; i < source.names.size(); ++i) ids.emplace(source.names[i], static_cast<int>(i));
  for (const Input& input : inputs) {
    const auto id = ids.find(input.name);
    if (id == ids.end()) continue;  // the template never asks for it
    const bool text = input.trusted && input.value.is_string();
    interpreter.define(id->second,
                       text ? ctx.string(input.value.get_ref<const std::string&>(), true) : ctx.from_json(input.value));
  }
  Outcome out;
  out.text = interpreter.run();
  out.status = ctx.status();
  out.refused = ctx.raised();
  return out;
}

}  // namespace strata::jinja
