// Ids of different things are different types; a position is a plain number because it is added and compared all day.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace strata {

template <class Tag>
struct Id {
  int32_t v = -1;
  constexpr Id() = default;
  constexpr explicit Id(int32_t value) : v(value) {}
  constexpr auto operator<=>(const Id&) const = default;
};

using TokenId = Id<struct TokenTag>;
using LayerId = Id<struct LayerTag>;
using ExpertId = Id<struct ExpertTag>;
using Pos = int32_t;  // index of a token in its sequence

}  // namespace strata

template <class Tag>
struct std::hash<strata::Id<Tag>> {
  size_t operator()(strata::Id<Tag> id) const { return std::hash<int32_t>{}(id.v); }
};
