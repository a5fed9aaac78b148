// SPDX-License-Identifier: Apache-2.0
// Layer normalisation (Ba, Kiros, Hinton 2016) over the last dimension, population variance; statistics in float.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// y = (x - mean) * rstd * gain + bias for rows x C; mean and rstd [rows] are kept for backward.
template <typename T>
void layernorm_forward(std::size_t rows, std::size_t C, float epsilon, const T* x, const T* gain, const T* bias, T* y,
                       float* mean, float* rstd);

/// y again, from the kept statistics (backward needs it as an operand and does not store it). The same bits as forward's.
template <typename T>
void layernorm_recompute(std::size_t rows, std::size_t C, const T* x, const T* gain, const T* bias, const float* mean,
                         const float* rstd, T* y);

/// dx = (residual_gradient +) gradient through the norm; residual_gradient may be null, dx may be residual_gradient or dy.
/// dgain, dbias [C] are overwritten. Rows are summed in fixed groups: the result does not depend on threads.
/// workspace: layernorm_workspace_bytes(rows, C).
template <typename T>
void layernorm_backward(std::size_t rows, std::size_t C, const T* x, const T* gain, const float* mean, const float* rstd,
                        const T* dy, const T* residual_gradient, T* dx, float* dgain, float* dbias,
                        Span<std::byte> workspace);
std::size_t layernorm_workspace_bytes(std::size_t rows, std::size_t C);

}  // namespace shoal::kernels
