#include "model/architecture.h"

namespace strata {
namespace {

constexpr const Architecture* kArchitectures[] = {&kQwen4Exp};

}  // namespace

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture* a : kArchitectures) {
    if (a->name == name) return a;
  }
  return nullptr;
}

std::string architecture_names() {
  std::string out;
  for (const Architecture* a : kArchitectures) out += (out.empty() ? "" : ", ") + std::string(a->name);
  return out;
}

}  // namespace strata
