// SPDX-License-Identifier: Apache-2.0
// Flat buffers whose element type is known at run time only: gradients and parameters as they are stored and sent. All
// arithmetic is in fp32 (sums of squares in double), and what is stored is rounded to nearest, ties to even. An element's
// bits do not depend on where a slice begins.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// into += from; n elements of the type each.
void add(DType type, std::size_t n, const void* from, void* into);
/// y = x rounded to the type. y may be x: the result then lies over x's front half.
void narrow(DType type, std::size_t n, const float* x, void* y);
/// y = x, exactly. y and x must not overlap, unless the type is f32 and they are the same.
void widen(DType type, std::size_t n, const void* x, float* y);
/// As kernels/reduce.hpp: a sum for each piece of 256 elements.
void sum_of_squares_by_piece(DType type, std::size_t n, const void* x, double* sums);

}  // namespace shoal::kernels
