// One function per instruction set: its kernels, or null where this build lacks them or this processor cannot run them.
#pragma once

#include "cpu/kernels.h"

namespace strata {

const Kernels* generic_kernels();
const Kernels* avx2_kernels();
const Kernels* avxvnni_kernels();
const Kernels* avx512_kernels();

}  // namespace strata
