// The parsed form of a template. Nodes are plain data of two kinds: expressions and statements. Depth is bounded by the
// parser, so walking and freeing them may recurse. Names are numbers into Template::names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/jinja_value.h"

namespace strata::jinja {

enum class ExprKind : uint8_t {
  literal,      // value
  name,         // id
  list,         // kids
  tuple,        // kids
  dict,         // kids: key, value, key, value ...
  attribute,    // kids[0] . text
  item,         // kids[0] [ kids[1] ]
  slice,        // kids[0] [ kids[1] : kids[2] : kids[3] ], parts may be null
  call,         // kids[0] ( args )
  filter,       // kids[0] | text ( args ); kids[0] is null where a block is filtered
  test,         // kids[0] is text ( args )
  negate,       // - kids[0]
  plus,         // + kids[0]
  logical_not,  // not kids[0]
  logical_and,  // kids[0] and kids[1]
  logical_or,   // kids[0] or kids[1]
  arithmetic,   // kids[0] ops[0] kids[1]
  concat,       // kids[0] ~ kids[1] ~ ...
  compare,      // kids[0] ops[0] kids[1] ops[1] kids[2] ...
  conditional,  // kids[0] if kids[1] else kids[2], which may be null
};

enum class Op : uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Argument {
  enum class Form : uint8_t { positional, named, spread_list, spread_dict };
  Form form = Form::positional;
  std::string name;
  ExprPtr value;
};

struct Expr {
  ExprKind kind = ExprKind::literal;
  int line = 0;
  int depth = 1;     // of the tree below, this node included
  int id = -1;       // name
  std::string text;  // attribute, filter or test name
  Value value;       // literal; a string is owned by `owned`
  std::unique_ptr<TextObject> owned;
  const Builtin* builtin = nullptr;  // filter and test; null when there is none of that name
  std::vector<Op> ops;
  std::vector<ExprPtr> kids;
  std::vector<Argument> args;
};

enum class StmtKind : uint8_t {
  text,          // owned
  output,        // expr
  set,           // target = expr
  set_block,     // target = rendered body, filtered by expr when there is one
  if_chain,      // branches, otherwise
  for_loop,      // target in expr, if test: body, otherwise
  macro,         // id, parameters, body
  call_block,    // expr is the call; parameters and body are the caller
  filter_block,  // body filtered by expr
  with,          // parameters with values, body
  scope,         // body in a scope of its own
  loop_break,
  loop_continue,
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

struct Branch {
  ExprPtr test;
  Body body;
};

struct Parameter {
  int id = -1;
  ExprPtr target;  // with: what is assigned
  ExprPtr value;   // default, may be null
};

struct Stmt {
  StmtKind kind = StmtKind::text;
  int line = 0;
  int id = -1;
  std::string owned;
  ExprPtr expr, target, test;
  Body body, otherwise;
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  bool uses_varargs = false, uses_kwargs = false;  // macro and call_block
};

struct Template {
  std::string name;                // of the template, for messages
  std::vector<std::string> names;  // by id
  Body body;
};

// Ids that every template has.
enum KnownName : int { kNameLoop, kNameCaller, kNameVarargs, kNameKwargs, kKnownNames };

}  // namespace strata::jinja
