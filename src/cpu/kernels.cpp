#include "cpu/kernels.h"

#include <array>

#include "cpu/isa.h"

namespace strata {
namespace {

struct Available {
  std::array<const Kernels*, 4> list{};
  size_t count = 0;

  Available() {
    for (const Kernels* kernels : {avx512_kernels(), avxvnni_kernels(), avx2_kernels(), generic_kernels()}) {
      if (kernels != nullptr) list[count++] = kernels;
    }
  }
};

}  // namespace

std::span<const Kernels* const> available_kernels() {
  static const Available available;
  return {available.list.data(), available.count};
}

const Kernels* find_kernels(std::string_view isa) {
  if (isa == "auto") return available_kernels().front();
  for (const Kernels* kernels : available_kernels()) {
    if (isa == kernels->isa) return kernels;
  }
  return nullptr;
}

}  // namespace strata
