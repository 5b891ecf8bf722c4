// Operators of the template language, with Python's meaning: arithmetic, comparison and slices.
#pragma once

#include "text/jinja_ast.h"
#include "text/jinja_value.h"

namespace strata::jinja {

Value arithmetic(Context& ctx, Op op, const Value& a, const Value& b);
Value negate(Context& ctx, const Value& v);
bool holds(Context& ctx, Op op, const Value& a, const Value& b);  // comparisons and membership
// v[start:stop:step] of a string or list; none or missing where a part was left out.
Value slice(Context& ctx, const Value& v, const Value& start, const Value& stop, const Value& step);

}  // namespace strata::jinja
