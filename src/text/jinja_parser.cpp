#include "text/jinja_parser.h"

#include <algorithm>
#include <functional>
#include <initializer_list>

#include "text/jinja_builtins.h"
#include "text/jinja_parse_expr.h"
#include "text/unicode.h"

namespace strata::jinja {
namespace {

class Parser {
 public:
  Parser(std::vector<Token> tokens, const Limits& limits) : p_(std::move(tokens), limits) {}

  Result<Template> run(std::string_view name) {
    Template out;
    out.body = body({});
    if (p_.failed())
      return Status(p_.status().code(), fmt::format("{} line {}: {}", name, p_.error_line(), p_.status().message()));
    out.name = name;
    out.names = p_.take_names();
    return out;
  }

 private:
  using Ends = std::initializer_list<const char*>;

  // Statements up to a tag that is one of `ends`, whose name is left as the current token.
  Body body(Ends ends) {
    Body out;
    if (!p_.enter()) return out;
    while (!p_.failed()) {
      if (p_.is(TokenKind::end)) {
        if (ends.size() > 0) p_.fail(fmt::format("the template ends where '{}' was expected", *ends.begin()));
        break;
      }
      StmtPtr made = std::make_unique<Stmt>();
      made->line = p_.line();
      if (p_.is(TokenKind::data)) {
        made->owned = p_.current().text;
        p_.skip();
      } else if (p_.is(TokenKind::variable_begin)) {
        p_.skip();
        made->kind = StmtKind::output;
        made->expr = p_.tuple(true);
        p_.expect(TokenKind::variable_end, "'}}'");
      } else {
        p_.skip();
        if (std::any_of(ends.begin(), ends.end(), [&](const char* e) { return p_.is_name(e); })) break;
        statement(*made);
        p_.expect(TokenKind::block_end, "'%}'");
      }
      out.push_back(std::move(made));
    }
    p_.leave();
    return out;
  }

  // The rest of an opening tag, then its body.
  Body tag_body(Ends ends) {
    p_.skip_sign(":");
    p_.expect(TokenKind::block_end, "'%}'");
    return body(ends);
  }

  // After the name of an ending tag: jinja2 reads its '%}' with the statement's own.
  Body closed_body(const char* end) {
    Body out = tag_body({end});
    p_.skip();
    return out;
  }

  void statement(Stmt& s) {
    const std::string tag = p_.any_name();
    if (tag == "if") return if_chain(s);
    if (tag == "for") return for_loop(s);
    if (tag == "set") return set(s);
    if (tag == "macro") return macro(s);
    if (tag == "call") return call_block(s);
    if (tag == "filter") return filter_block(s);
    if (tag == "with") return with(s);
    if (tag == "break" || tag == "continue") {
      s.kind = tag == "break" ? StmtKind::loop_break : StmtKind::loop_continue;
      if (loops_ == 0) p_.fail(fmt::format("'{}' outside a loop", tag));
      return;
    }
    if (tag == "generation") {  // marks text of the assistant for training; means nothing here
      s.kind = StmtKind::scope;
      s.body = closed_body("endgeneration");
      return;
    }
    if (p_.failed()) return;
    static constexpr std::string_view kAbsent[] = {"block", "extends",    "include", "import",
                                                   "from",  "autoescape", "print",   "do"};
    if (std::find(std::begin(kAbsent), std::end(kAbsent), tag) != std::end(kAbsent))
      p_.fail(fmt::format("the tag '{}' is not supported in chat templates", tag), Code::unsupported);
    else
      p_.fail(fmt::format("unknown tag '{}'", tag));
  }

  void if_chain(Stmt& s) {
    s.kind = StmtKind::if_chain;
    do {
      Branch branch;
      branch.test = p_.tuple(false);
      branch.body = tag_body({"endif", "elif", "else"});
      s.branches.push_back(std::move(branch));
    } while (p_.skip_name("elif") && !p_.failed());
    if (p_.skip_name("else"))
      s.otherwise = closed_body("endif");
    else
      p_.expect_name("endif");
  }

  void for_loop(Stmt& s) {
    s.kind = StmtKind::for_loop;
    s.target = p_.target("in");
    p_.expect_name("in");
    s.expr = p_.tuple(false, "recursive");
    if (p_.skip_name("if")) s.test = p_.expression();
    if (p_.is_name("recursive")) p_.fail("recursive loops are not supported in chat templates", Code::unsupported);
    ++loops_;
    s.body = tag_body({"endfor", "else"});
    --loops_;
    if (p_.skip_name("else"))
      s.otherwise = closed_body("endfor");
    else
      p_.expect_name("endfor");
  }

  void set(Stmt& s) {
    s.target = p_.target();
    if (p_.skip_sign("=")) {
      s.kind = StmtKind::set;
      s.expr = p_.tuple(true);
      return;
    }
    s.kind = StmtKind::set_block;
    if (p_.is_sign("|")) s.expr = p_.filters(nullptr);
    s.body = closed_body("endset");
  }

  void parameters(Stmt& s) {
    p_.expect_sign("(");
    while (!p_.is_sign(")") && !p_.failed()) {
      if (!s.parameters.empty() && (!p_.expect_sign(",") || p_.is_sign(")"))) break;
      Parameter parameter;
      parameter.id = p_.name_id(p_.any_name());
      if (p_.skip_sign("="))
        parameter.value = p_.expression();
      else if (!s.parameters.empty() && s.parameters.back().value)
        p_.fail("a parameter without a default after one with a default");
      s.parameters.push_back(std::move(parameter));
    }
    p_.expect_sign(")");
  }

  // A body that is called: loop controls do not reach out of it, and it may ask for surplus arguments by name.
  void callable_body(Stmt& s, const char* end) {
    const int loops = std::exchange(loops_, 0);
    s.body = closed_body(end);
    loops_ = loops;
    s.uses_varargs = mentions(s.body, kNameVarargs);
    s.uses_kwargs = mentions(s.body, kNameKwargs);
  }

  void macro(Stmt& s) {
    s.kind = StmtKind::macro;
    s.id = p_.name_id(p_.any_name());
    parameters(s);
    callable_body(s, "endmacro");
  }

  void call_block(Stmt& s) {
    s.kind = StmtKind::call_block;
    if (p_.is_sign("(")) parameters(s);
    s.expr = p_.expression();
    if (s.expr && s.expr->kind != ExprKind::call) p_.fail("'call' needs a call");
    callable_body(s, "endcall");
  }

  void filter_block(Stmt& s) {
    s.kind = StmtKind::filter_block;
    s.expr = p_.filters(nullptr, true);
    s.body = closed_body("endfilter");
  }

  void with(Stmt& s) {
    s.kind = StmtKind::with;
    while (!p_.is(TokenKind::block_end) && !p_.failed()) {
      if (!s.parameters.empty() && !p_.expect_sign(",")) break;
      Parameter parameter;
      parameter.target = p_.target();
      p_.expect_sign("=");
      parameter.value = p_.expression();
      s.parameters.push_back(std::move(parameter));
    }
    s.body = closed_body("endwith");
  }

  static bool mentions(const Expr* e, int id) {
    if (e == nullptr) return false;
    if (e->kind == ExprKind::name && e->id == id) return true;
    return std::any_of(e->kids.begin(), e->kids.end(), [&](const ExprPtr& k) { return mentions(k.get(), id); }) ||
           std::any_of(e->args.begin(), e->args.end(), [&](const Argument& a) { return mentions(a.value.get(), id); });
  }

  static bool mentions(const Body& body, int id) {
    return std::any_of(body.begin(), body.end(), [&](const StmtPtr& s) { return mentions(*s, id); });
  }

  static bool mentions(const Stmt& s, int id) {
    if (mentions(s.expr.get(), id) || mentions(s.test.get(), id) || mentions(s.body, id) || mentions(s.otherwise, id))
      return true;
    return std::any_of(s.branches.begin(), s.branches.end(),
                       [&](const Branch& b) { return mentions(b.test.get(), id) || mentions(b.body, id); }) ||
           std::any_of(s.parameters.begin(), s.parameters.end(),
                       [&](const Parameter& p) { return mentions(p.value.get(), id); });
  }

  ExprParser p_;
  int loops_ = 0;
};

}  // namespace

Result<Template> parse_template(std::string_view source, std::string_view name, const Limits& limits) {
  if (source.size() > limits.source_bytes)
    return Status(Code::out_of_range,
                  fmt::format("{} has {} bytes, more than {}", name, source.size(), limits.source_bytes));
  if (!is_valid_utf8(source)) return Status(Code::corrupt, fmt::format("{} is not UTF-8", name));
  auto tokens = tokenize(source);
  if (!tokens.ok()) return Status(tokens.status().code(), fmt::format("{} {}", name, tokens.status().message()));
  return Parser(std::move(tokens).value(), limits).run(name);
}

}  // namespace strata::jinja
