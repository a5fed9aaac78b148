// SPDX-License-Identifier: Apache-2.0
// What cuBLASLt does not add to a product itself.
#pragma once

#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels::cuda {

/// Adds the bias to each row of C.
template <typename T>
void add_bias(const char* label, const T* bias, Matrix<float> c);

}  // namespace shoal::kernels::cuda
