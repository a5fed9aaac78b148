// SPDX-License-Identifier: Apache-2.0
// Products of bf16 matrices by AVX512_BF16: an instruction multiplies sixteen pairs of neighbours in the sum.
#pragma once

#if defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define SHOAL_PAIRS
#endif

#include <cstddef>

#include "kernels/cpu/vectors/amx.hpp"
#include "kernels/cpu/vectors/instructions.hpp"
#include "shoal/kernels/matmul.hpp"

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

/// Returns true if blocked_pairs.cpp reads rows of A where they are. Otherwise it packs A: its columns, or rows that end
/// within a pair.
inline bool reads_rows(Transpose a, std::size_t k) { return a == Transpose::no && k % 2 == 0; }

}  // namespace shoal::kernels::pairs
