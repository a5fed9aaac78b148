// SPDX-License-Identifier: Apache-2.0
// Kernels on flat buffers whose element type is known only at run time: gradients and parameters as they are stored and
// sent. Arithmetic is in fp32 (sums of squares in double); results are rounded to nearest, ties to even. The bits of an
// element do not depend on its position in a buffer.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// into += from, n elements of the type.
void add(DType type, std::size_t n, const void* from, void* into);
/// y = x rounded to the type. y may begin where x does: it then overwrites x, or its front half if the type is smaller.
void narrow(DType type, std::size_t n, const float* x, void* y);
/// y = x, which is exact. y and x must not overlap, except that they may be the same if the type is f32.
void widen(DType type, std::size_t n, const void* x, float* y);
/// As in kernels/reduce.hpp: one sum for each granule of 256 elements.
void sum_of_squares_by_granule(DType type, std::size_t n, const void* x, double* sums);

}  // namespace shoal::kernels
