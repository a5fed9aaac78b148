// SPDX-License-Identifier: Apache-2.0
// The sum of a row, in the order of rules/row_sums.hpp.
#pragma once

#include <cstddef>

#include "kernels/cpu/vectors/simd.hpp"

namespace shoal::kernels {

/// Four partial sums, so that additions need not wait for one another: their lanes are the chains.
struct ChainSums {
  simd::Floats parts[4] = {};
  /// The partial sums to which the vector is added that begins at element i.
  SHOAL_INLINE simd::Floats& at(std::size_t i) { return parts[i / simd::width % 4]; }
  SHOAL_INLINE float total() const { return simd::sum((parts[0] + parts[1]) + (parts[2] + parts[3])); }
};

}  // namespace shoal::kernels
