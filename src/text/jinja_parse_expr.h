// The token cursor and the expression half of the parser. A failure sticks and turns what follows into the end of the
// template, so that every loop over tokens stops by itself.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace strata::jinja {

class ExprParser {
 public:
  ExprParser(std::vector<Token> tokens, const Limits& limits);

  // Cursor.
  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void skip() { at_ = std::min(at_ + 1, tokens_.size() - 1); }
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_name(std::string_view text) const { return is(TokenKind::name) && current().text == text; }
  bool is_sign(std::string_view text) const { return is(TokenKind::sign) && current().text == text; }
  bool skip_name(std::string_view text);
  bool skip_sign(std::string_view text);
  bool expect_name(std::string_view text);
  bool expect_sign(std::string_view text);
  bool expect(TokenKind kind, const char* what);
  std::string any_name();
  std::string dotted_name();  // of a filter or test
  int line() const { return current().line; }

  std::nullptr_t fail(std::string cause, Code code = Code::corrupt);
  bool failed() const { return !status_.ok(); }
  const Status& status() const { return status_; }
  int error_line() const { return error_line_; }
  bool enter();  // one level deeper; fails beyond the limit
  void leave() { --nesting_; }

  int name_id(const std::string& name);
  std::vector<std::string> take_names() { return std::move(names_); }

  // Expressions. All give null after a failure.
  ExprPtr expression(bool with_condition = true);
  // One expression, or a tuple where commas follow; ends before the name `end`, if given.
  ExprPtr tuple(bool with_condition, std::string_view end = {}, bool in_parentheses = false);
  ExprPtr target(std::string_view end = {});  // of an assignment: names, tuples of them, name.attribute
  ExprPtr filters(ExprPtr of, bool first_without_bar = false);  // of: null where a block is filtered
  std::vector<Argument> arguments();

 private:
  ExprPtr make(ExprKind kind, int line, std::vector<ExprPtr> kids = {});
  ExprPtr finish(ExprPtr node);  // computes and bounds the depth
  ExprPtr condition();
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr comparison();
  ExprPtr additive();
  ExprPtr concatenation();
  ExprPtr multiplicative();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr primary();
  ExprPtr postfix(ExprPtr node);
  ExprPtr subscript(ExprPtr node);
  ExprPtr filters_and_tests(ExprPtr node);
  ExprPtr call(ExprPtr node);
  ExprPtr test(ExprPtr node);
  ExprPtr string_literal();
  ExprPtr number();
  ExprPtr list();
  ExprPtr dict();
  bool assignable(const Expr& e) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  Limits limits_;
  Status status_;
  int error_line_ = 0;
  std::map<std::string, int> ids_;
  std::vector<std::string> names_;
};

}  // namespace strata::jinja
