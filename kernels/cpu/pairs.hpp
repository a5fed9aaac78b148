// SPDX-License-Identifier: Apache-2.0
// Products of bf16 matrices by AVX512_BF16: an instruction multiplies sixteen pairs of neighbours in the sum.
#pragma once

#if defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define SHOAL_PAIRS
#endif

#include "amx.hpp"
#include "instructions.hpp"

namespace shoal::kernels::pairs {

/// Returns true if blocked_pairs.cpp computes products: this build has the code, this process may use the instructions, and
/// the processor has nothing better.
inline bool available() {
#if defined(SHOAL_PAIRS)
  return may_use(Instructions::bf16) && !amx::available();
#else
  return false;
#endif
}

}  // namespace shoal::kernels::pairs
