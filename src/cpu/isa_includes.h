// What the kernels of every instruction set need from outside, included before their text.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/dots.h"
#include "cpu/grids.h"
#include "cpu/mixers.h"
#include "quant/codebooks.h"
#include "quant/formats.h"

#define STRATA_INLINE inline __attribute__((always_inline))
