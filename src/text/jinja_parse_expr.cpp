#include "text/jinja_parse_expr.h"

#include <algorithm>
#include <charconv>

#include "text/jinja_builtins.h"

namespace strata::jinja {
namespace {

std::string describe(const Token& t) {
  switch (t.kind) {
    case TokenKind::end:
      return "the end of the template";
    case TokenKind::block_end:
      return "'%}'";
    case TokenKind::variable_end:
      return "'}}'";
    case TokenKind::string:
      return "a text in quotes";
    default:
      return "'" + t.text + "'";
  }
}

const std::pair<const char*, Op> kComparisons[] = {{"==", Op::equal},  {"!=", Op::not_equal},
                                                   {"<", Op::less},    {"<=", Op::less_equal},
                                                   {">", Op::greater}, {">=", Op::greater_equal}};

}  // namespace

ExprParser::ExprParser(std::vector<Token> tokens, const Limits& limits) : tokens_(std::move(tokens)), limits_(limits) {
  for (const char* name : {"loop", "caller", "varargs", "kwargs"}) name_id(name);
}

std::nullptr_t ExprParser::fail(std::string cause, Code code) {
  if (!status_.ok()) return nullptr;
  status_ = Status(code, std::move(cause));
  error_line_ = line();
  at_ = tokens_.size() - 1;
  return nullptr;
}

bool ExprParser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  skip();
  return true;
}

bool ExprParser::skip_sign(std::string_view text) {
  if (!is_sign(text)) return false;
  skip();
  return true;
}

bool ExprParser::expect_name(std::string_view text) {
  if (skip_name(text)) return true;
  fail(fmt::format("expected '{}', found {}", text, describe(current())));
  return false;
}

bool ExprParser::expect_sign(std::string_view text) {
  if (skip_sign(text)) return true;
  fail(fmt::format("expected '{}', found {}", text, describe(current())));
  return false;
}

bool ExprParser::expect(TokenKind kind, const char* what) {
  if (!is(kind)) {
    fail(fmt::format("expected {}, found {}", what, describe(current())));
    return false;
  }
  skip();
  return true;
}

std::string ExprParser::any_name() {
  std::string text = current().text;
  return expect(TokenKind::name, "a name") ? text : std::string();
}

std::string ExprParser::dotted_name() {
  std::string name = any_name();
  while (skip_sign(".")) name += "." + any_name();
  return name;
}

bool ExprParser::enter() {
  if (++nesting_ > limits_.nesting)
    fail(fmt::format("nested deeper than {} levels", limits_.nesting), Code::out_of_range);
  return !failed();
}

int ExprParser::name_id(const std::string& name) {
  const auto [at, added] = ids_.emplace(name, static_cast<int>(names_.size()));
  if (added) names_.push_back(name);
  return at->second;
}

ExprPtr ExprParser::make(ExprKind kind, int line, std::vector<ExprPtr> kids) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  node->kids = std::move(kids);
  return finish(std::move(node));
}

ExprPtr ExprParser::finish(ExprPtr node) {
  int deepest = 0;
  for (const ExprPtr& kid : node->kids)
    if (kid) deepest = std::max(deepest, kid->depth);
  for (const Argument& arg : node->args)
    if (arg.value) deepest = std::max(deepest, arg.value->depth);
  node->depth = deepest + 1;
  // Chains such as a + b + c grow to the left without nesting in the source.
  if (node->depth > limits_.nesting)
    return fail(fmt::format("an expression of more than {} levels", limits_.nesting), Code::out_of_range);
  return failed() ? nullptr : std::move(node);
}

namespace {

std::vector<ExprPtr> kids_of(ExprPtr a, ExprPtr b = nullptr, ExprPtr c = nullptr, size_t n = 0) {
  std::vector<ExprPtr> kids;
  kids.push_back(std::move(a));
  if (b || n > 1) kids.push_back(std::move(b));
  if (c || n > 2) kids.push_back(std::move(c));
  return kids;
}

}  // namespace

ExprPtr ExprParser::expression(bool with_condition) {
  if (!enter()) return nullptr;
  ExprPtr out = with_condition ? condition() : logical_or();
  leave();
  return out;
}

ExprPtr ExprParser::condition() {
  ExprPtr value = logical_or();
  while (is_name("if") && !failed()) {
    const int at = line();
    skip();
    ExprPtr test = logical_or();
    ExprPtr otherwise = skip_name("else") ? expression() : nullptr;
    value = make(ExprKind::conditional, at, kids_of(std::move(value), std::move(test), std::move(otherwise), 3));
  }
  return failed() ? nullptr : std::move(value);
}

ExprPtr ExprParser::logical_or() {
  ExprPtr left = logical_and();
  while (is_name("or")) {
    const int at = line();
    skip();
    left = make(ExprKind::logical_or, at, kids_of(std::move(left), logical_and(), nullptr, 2));
  }
  return left;
}

ExprPtr ExprParser::logical_and() {
  ExprPtr left = logical_not();
  while (is_name("and")) {
    const int at = line();
    skip();
    left = make(ExprKind::logical_and, at, kids_of(std::move(left), logical_not(), nullptr, 2));
  }
  return left;
}

ExprPtr ExprParser::logical_not() {
  if (!is_name("not")) return comparison();
  if (!enter()) return nullptr;
  const int at = line();
  skip();
  ExprPtr out = make(ExprKind::logical_not, at, kids_of(logical_not()));
  leave();
  return out;
}

ExprPtr ExprParser::comparison() {
  ExprPtr first = additive();
  std::vector<Op> ops;
  std::vector<ExprPtr> kids;
  const int at = line();
  while (!failed()) {
    const auto* sign =
        std::find_if(std::begin(kComparisons), std::end(kComparisons), [&](const auto& c) { return is_sign(c.first); });
    if (sign != std::end(kComparisons)) {
      ops.push_back(sign->second);
    } else if (is_name("in")) {
      ops.push_back(Op::in);
    } else if (is_name("not") && next().kind == TokenKind::name && next().text == "in") {
      ops.push_back(Op::not_in);
      skip();
    } else {
      break;
    }
    skip();
    kids.push_back(additive());
  }
  if (ops.empty() || failed()) return failed() ? nullptr : std::move(first);
  kids.insert(kids.begin(), std::move(first));
  ExprPtr node = make(ExprKind::compare, at, std::move(kids));
  if (node) node->ops = std::move(ops);
  return node;
}

ExprPtr ExprParser::additive() {
  ExprPtr left = concatenation();
  while (is_sign("+") || is_sign("-")) {
    const int at = line();
    const Op op = is_sign("+") ? Op::add : Op::subtract;
    skip();
    left = make(ExprKind::arithmetic, at, kids_of(std::move(left), concatenation(), nullptr, 2));
    if (left) left->ops = {op};
  }
  return left;
}

ExprPtr ExprParser::concatenation() {
  ExprPtr first = multiplicative();
  if (!is_sign("~")) return first;
  const int at = line();
  std::vector<ExprPtr> kids;
  kids.push_back(std::move(first));
  while (skip_sign("~")) kids.push_back(multiplicative());
  return make(ExprKind::concat, at, std::move(kids));
}

ExprPtr ExprParser::multiplicative() {
  ExprPtr left = power();
  for (;;) {
    const int at = line();
    Op op = Op::multiply;
    if (is_sign("/")) op = Op::divide;
    if (is_sign("//")) op = Op::floor_divide;
    if (is_sign("%")) op = Op::modulo;
    if (op == Op::multiply && !is_sign("*")) return left;
    skip();
    left = make(ExprKind::arithmetic, at, kids_of(std::move(left), power(), nullptr, 2));
    if (left) left->ops = {op};
  }
}

ExprPtr ExprParser::power() {
  ExprPtr left = unary();
  while (is_sign("**")) {
    const int at = line();
    skip();
    left = make(ExprKind::arithmetic, at, kids_of(std::move(left), unary(), nullptr, 2));
    if (left) left->ops = {Op::power};
  }
  return left;
}

ExprPtr ExprParser::unary(bool with_filter) {
  if (!enter()) return nullptr;
  ExprPtr node;
  const int at = line();
  if (is_sign("-") || is_sign("+")) {
    const ExprKind kind = is_sign("-") ? ExprKind::negate : ExprKind::plus;
    skip();
    node = make(kind, at, kids_of(unary(false)));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  if (with_filter) node = filters_and_tests(std::move(node));
  leave();
  return node;
}

ExprPtr ExprParser::primary() {
  const Token& token = current();
  if (token.kind == TokenKind::string) return string_literal();
  if (token.kind == TokenKind::integer || token.kind == TokenKind::real) return number();
  if (is_sign("[")) return list();
  if (is_sign("{")) return dict();
  if (skip_sign("(")) {
    ExprPtr inner = tuple(true, {}, true);
    return expect_sign(")") ? std::move(inner) : nullptr;
  }
  if (token.kind != TokenKind::name) return fail(fmt::format("expected a value, found {}", describe(token)));
  const std::string& text = token.text;
  ExprPtr node = make(ExprKind::literal, token.line);
  if (!node) return nullptr;
  if (text == "true" || text == "True" || text == "false" || text == "False") {
    node->value = Value::of(text == "true" || text == "True");
  } else if (text == "none" || text == "None") {
    node->value = Value::none();
  } else {
    node->kind = ExprKind::name;
    node->text = text;
    node->id = name_id(text);
  }
  skip();
  return node;
}

ExprPtr ExprParser::string_literal() {
  ExprPtr node = make(ExprKind::literal, line());
  std::string text;
  for (; is(TokenKind::string); skip()) text += current().text;
  if (!node) return nullptr;
  node->owned = std::make_unique<TextObject>();
  node->owned->text.append(text, true);
  node->value.kind = Kind::string;
  node->value.length = static_cast<uint32_t>(text.size());
  node->value.text = node->owned.get();
  return node;
}

ExprPtr ExprParser::number() {
  const Token token = current();
  ExprPtr node = make(ExprKind::literal, token.line);
  if (!node) return nullptr;
  std::string_view text = token.text;
  if (token.kind == TokenKind::real) {
    double v = 0;
    // Out of range gives what Python's reading gives: infinity or zero.
    const auto read = std::from_chars(text.data(), text.data() + text.size(), v);
    if (read.ec != std::errc()) v = text.find("e-") != text.npos || text.find("E-") != text.npos ? 0.0 : HUGE_VAL;
    node->value = Value::of(v);
  } else {
    int base = 10;
    if (text.size() > 1 && text[0] == '0' && !(text[1] >= '0' && text[1] <= '9')) {
      base = (text[1] | 0x20) == 'x' ? 16 : ((text[1] | 0x20) == 'o' ? 8 : 2);
      text = text.substr(2);
    }
    int64_t v = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), v, base);
    if (read.ec != std::errc()) return fail(fmt::format("the number {} does not fit in 64 bits", token.text));
    node->value = Value::of(v);
  }
  skip();
  return node;
}

ExprPtr ExprParser::list() {
  const int at = line();
  skip();
  std::vector<ExprPtr> kids;
  while (!is_sign("]") && !failed()) {
    if (!kids.empty() && !expect_sign(",")) break;
    if (is_sign("]")) break;
    kids.push_back(expression());
  }
  expect_sign("]");
  return make(ExprKind::list, at, std::move(kids));
}

ExprPtr ExprParser::dict() {
  const int at = line();
  skip();
  std::vector<ExprPtr> kids;
  while (!is_sign("}") && !failed()) {
    if (!kids.empty() && !expect_sign(",")) break;
    if (is_sign("}")) break;
    kids.push_back(expression());
    expect_sign(":");
    kids.push_back(expression());
  }
  expect_sign("}");
  return make(ExprKind::dict, at, std::move(kids));
}

ExprPtr ExprParser::tuple(bool with_condition, std::string_view end, bool in_parentheses) {
  const int at = line();
  std::vector<ExprPtr> kids;
  bool is_tuple = false;
  for (;;) {
    if (!kids.empty() && !expect_sign(",")) return nullptr;
    const bool ended =
        is(TokenKind::variable_end) || is(TokenKind::block_end) || is_sign(")") || (!end.empty() && is_name(end));
    if (ended) break;
    kids.push_back(expression(with_condition));
    if (failed()) return nullptr;
    if (!is_sign(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !kids.empty()) return std::move(kids.front());
  if (!is_tuple && !in_parentheses) return fail(fmt::format("expected a value, found {}", describe(current())));
  return make(ExprKind::tuple, at, std::move(kids));
}

bool ExprParser::assignable(const Expr& e) const {
  if (e.kind == ExprKind::name) return true;
  return e.kind == ExprKind::tuple &&
         std::all_of(e.kids.begin(), e.kids.end(), [&](const ExprPtr& k) { return assignable(*k); });
}

ExprPtr ExprParser::target(std::string_view end) {
  const int at = line();
  if (is(TokenKind::name) && next().kind == TokenKind::sign && next().text == ".") {
    ExprPtr owner = primary();
    skip();
    ExprPtr node = make(ExprKind::attribute, at, kids_of(std::move(owner)));
    const std::string name = any_name();
    if (node) node->text = name;
    return failed() ? nullptr : std::move(node);
  }
  std::vector<ExprPtr> kids;
  bool is_tuple = false;
  for (;;) {
    if (!kids.empty() && !expect_sign(",")) return nullptr;
    if (is(TokenKind::block_end) || is_sign(")") || is_sign("=") || (!end.empty() && is_name(end))) break;
    if (!enter()) return nullptr;
    kids.push_back(primary());
    leave();
    if (failed()) return nullptr;
    if (!assignable(*kids.back())) return fail("only names can be assigned to");
    if (!is_sign(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && kids.size() == 1) return std::move(kids.front());
  if (kids.empty()) return fail(fmt::format("expected a name to assign to, found {}", describe(current())));
  return make(ExprKind::tuple, at, std::move(kids));
}

ExprPtr ExprParser::postfix(ExprPtr node) {
  while (!failed()) {
    if (is_sign(".") || is_sign("["))
      node = subscript(std::move(node));
    else if (is_sign("("))
      node = call(std::move(node));
    else
      return node;
  }
  return nullptr;
}

ExprPtr ExprParser::subscript(ExprPtr node) {
  const int at = line();
  if (skip_sign(".")) {
    if (is(TokenKind::integer)) return make(ExprKind::item, at, kids_of(std::move(node), number()));
    node = make(ExprKind::attribute, at, kids_of(std::move(node)));
    const std::string name = any_name();
    if (node) node->text = name;
    return failed() ? nullptr : std::move(node);
  }
  skip();
  std::vector<ExprPtr> parts;
  parts.push_back(std::move(node));
  bool is_slice = false;
  parts.push_back(is_sign(":") ? nullptr : tuple(true));
  for (int i = 0; i < 2 && skip_sign(":"); ++i) {
    is_slice = true;
    parts.push_back(is_sign("]") || is_sign(":") ? nullptr : expression());
  }
  expect_sign("]");
  if (failed()) return nullptr;
  if (is_slice) parts.resize(4);
  return make(is_slice ? ExprKind::slice : ExprKind::item, at, std::move(parts));
}

ExprPtr ExprParser::filters_and_tests(ExprPtr node) {
  while (!failed()) {
    if (is_sign("|"))
      node = filters(std::move(node));
    else if (is_name("is"))
      node = test(std::move(node));
    else if (is_sign("("))
      node = call(std::move(node));
    else
      return node;
  }
  return nullptr;
}

ExprPtr ExprParser::call(ExprPtr node) {
  const int at = line();
  std::vector<Argument> args = arguments();
  ExprPtr out = make(ExprKind::call, at, kids_of(std::move(node)));
  if (!out) return nullptr;
  out->args = std::move(args);
  return finish(std::move(out));
}

std::vector<Argument> ExprParser::arguments() {
  using Form = Argument::Form;
  std::vector<Argument> out;
  expect_sign("(");
  while (!is_sign(")") && !failed()) {
    if (!out.empty() && (!expect_sign(",") || is_sign(")"))) break;
    Argument arg;
    const Form last = out.empty() ? Form::positional : out.back().form;
    if (skip_sign("*")) {
      arg.form = Form::spread_list;
    } else if (skip_sign("**")) {
      arg.form = Form::spread_dict;
    } else if (is(TokenKind::name) && next().kind == TokenKind::sign && next().text == "=") {
      arg.form = Form::named;
      arg.name = current().text;
      skip();
      skip();
    }
    if (arg.form == Form::positional && last != Form::positional) fail("a positional argument after a named one");
    if (last == Form::spread_dict) fail("an argument after '**'");
    arg.value = expression();
    out.push_back(std::move(arg));
  }
  expect_sign(")");
  return out;
}

ExprPtr ExprParser::filters(ExprPtr of, bool first_without_bar) {
  bool first = first_without_bar;
  ExprPtr node = std::move(of);
  while ((first || is_sign("|")) && !failed()) {
    if (!first) skip();
    first = false;
    const int at = line();
    const std::string name = dotted_name();
    std::vector<Argument> args;
    if (is_sign("(")) args = arguments();
    ExprPtr out = make(ExprKind::filter, at, kids_of(std::move(node)));
    if (!out) return nullptr;
    out->builtin = find_filter(name);
    out->text = name;
    out->args = std::move(args);
    node = finish(std::move(out));
  }
  return failed() ? nullptr : std::move(node);
}

ExprPtr ExprParser::test(ExprPtr node) {
  const int at = line();
  skip();
  const bool negated = skip_name("not");
  const std::string name = dotted_name();
  std::vector<Argument> args;
  const bool value_follows = is(TokenKind::name) || is(TokenKind::string) || is(TokenKind::integer) ||
                             is(TokenKind::real) || is_sign("[") || is_sign("{");
  if (is_sign("(")) {
    args = arguments();
  } else if (value_follows && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) return fail("a test cannot follow a test: put one in parentheses");
    Argument arg;
    arg.value = postfix(primary());
    args.push_back(std::move(arg));
  }
  ExprPtr out = make(ExprKind::test, at, kids_of(std::move(node)));
  if (!out) return nullptr;
  out->builtin = find_test(name);
  out->text = name;
  out->args = std::move(args);
  out = finish(std::move(out));
  return negated && out ? make(ExprKind::logical_not, at, kids_of(std::move(out))) : std::move(out);
}

}  // namespace strata::jinja
