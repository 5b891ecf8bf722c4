// The two halves of the table of filters.
#pragma once

#include "text/jinja_builtins.h"

namespace strata::jinja {

const Builtin* find_text_filter(std::string_view name);
const Builtin* find_sequence_filter(std::string_view name);

}  // namespace strata::jinja
