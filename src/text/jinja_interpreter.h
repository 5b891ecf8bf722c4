// Runs a parsed template: statements write marked text, expressions give values. One interpreter renders once.
// Scopes follow jinja2: loops, macros and blocks have their own, `if` does not; an assignment stays in the innermost.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_builtins.h"

namespace strata::jinja {

struct Scope : HeapObject {
  Scope* parent = nullptr;
  bool captured = false;  // a macro still refers to it
  std::vector<std::pair<int, Value>> variables;

  Value* find(int id) {
    for (auto& [name, value] : variables)
      if (name == id) return &value;
    return nullptr;
  }
  void set(int id, const Value& v) {
    if (Value* old = find(id))
      *old = v;
    else
      variables.emplace_back(id, v);
  }
};

struct MacroObject : HeapObject {
  const Stmt* definition = nullptr;
  Scope* scope = nullptr;  // where it was defined
  std::string name;
};

struct LoopObject : HeapObject {
  const Stmt* statement = nullptr;
  List* items = nullptr;
  size_t next = 0;        // of items
  bool filtered = false;  // items must still pass the loop's test
  bool peeked = false;    // `following` was already taken from items
  int64_t index0 = -1;
  Value previous = Value::missing(), current = Value::missing(), following = Value::missing();
  Value last_changed = Value::missing();
};

class Interpreter {
 public:
  Interpreter(const Template& source, Context& ctx);

  void define(int id, const Value& v) { scope_->set(id, v); }
  MarkedText run();

 private:
  enum class Flow : uint8_t { normal, loop_break, loop_continue };

  // Statements.
  Flow run(const Body& body);
  Flow run(const Stmt& s);
  Flow run_in_scope(const Body& body);
  Flow if_chain(const Stmt& s);
  Flow for_loop(const Stmt& s);
  Flow set_block(const Stmt& s);
  Flow filter_block(const Stmt& s);
  Flow with(const Stmt& s);
  void call_block(const Stmt& s);
  void define_macro(const Stmt& s);
  void assign(const Expr& target, const Value& v);
  void assign_tuple(const Expr& target, const Value& v);
  void emit(std::string_view text);
  void emit(const Value& v);
  Value capture(const Body& body, Flow& flow);
  Scope* make_scope(Scope* parent);
  Value make_macro(const Stmt& s, std::string name);

  // Expressions.
  Value eval(const Expr& e);
  Value eval_node(const Expr& e);
  Value eval_name(const Expr& e);
  Value eval_list(const Expr& e);
  Value eval_dict(const Expr& e);
  Value eval_slice(const Expr& e);
  Value eval_concat(const Expr& e);
  Value eval_compare(const Expr& e);
  Value eval_conditional(const Expr& e);
  Value eval_filter(const Expr& e);
  Value eval_test(const Expr& e);
  Value eval_call(const Expr& e, const Value* caller);
  bool eval_arguments(const std::vector<Argument>& from, Args& out);
  Value attribute(const Value& self, std::string_view name);
  Value call_value(const Value& callee, const Args& args);
  Value call_macro(const MacroObject& macro, const Args& args);
  bool bind_parameters(const MacroObject& macro, const Args& args);

  // Loops.
  bool take_item(LoopObject& loop, Value& out);
  bool advance(LoopObject& loop);
  bool peek(LoopObject& loop);
  int64_t length(LoopObject& loop);
  Value loop_attribute(LoopObject& loop, const Value& self, std::string_view name);

  const Template& template_;
  Context& ctx_;
  Scope* scope_ = nullptr;
  MarkedText output_;
  MarkedText* out_ = &output_;
  Value piped_;  // what a block filter works on
  int depth_ = 0;
};

struct Input {
  std::string name;
  Json value;
  bool trusted = false;  // text of the model file, not of the request
};

struct Outcome {
  Status status;
  bool refused = false;  // the template called raise_exception
  MarkedText text;
};

Outcome render(const Template& source, const std::vector<Input>& inputs, const std::optional<std::tm>& now,
               const Limits& limits);

}  // namespace strata::jinja
