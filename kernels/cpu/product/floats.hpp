// SPDX-License-Identifier: Apache-2.0
// Products by AVX2's fused multiply-adds of floats, for processors without AVX-512. Operands of 16 bits are widened when
// they are packed.
#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define SHOAL_FLOATS
#endif

#include "kernels/cpu/vectors/instructions.hpp"

namespace shoal::kernels::floats {

/// Returns true if blocked_floats.cpp computes products: this build has the code, this process may use the instructions, and
/// the processor has nothing better.
inline bool available() {
#if defined(SHOAL_FLOATS)
  return may_use(Instructions::avx2) && !may_use(Instructions::avx512);
#else
  return false;
#endif
}

}  // namespace shoal::kernels::floats
