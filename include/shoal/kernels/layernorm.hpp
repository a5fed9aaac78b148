// SPDX-License-Identifier: Apache-2.0
// Layer normalisation (Ba, Kiros, Hinton 2016) of each row, with the population variance. Statistics are in float.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"
#include "shoal/kernels/rows.hpp"

namespace shoal::kernels {

template <typename T>
struct LayerNormInputs {
  const T* x;            ///< [rows, C]
  const T *gain, *bias;  ///< [C]
};
template <typename T>
struct LayerNormOutputs {
  T* y;                ///< [rows, C]
  float *mean, *rstd;  ///< [rows], saved for backward; rstd = 1 / sqrt(variance + epsilon)
};
/// y = (x - mean) * rstd * gain + bias.
template <typename T>
void layernorm_forward(RowShape shape, float epsilon, const LayerNormInputs<T>& in, const LayerNormOutputs<T>& out);

struct LayerNormStatistics {
  const float *mean, *rstd;  ///< [rows], as forward saved them
};
/// Computes forward's y again, with the same bits: backward needs it as an operand, and so it need not be stored.
template <typename T>
void layernorm_recompute(RowShape shape, const LayerNormInputs<T>& in, const LayerNormStatistics& saved, T* y);

template <typename T>
struct LayerNormBackwardInputs {
  const T *x, *gain;                     ///< as in forward
  const float *mean, *rstd;              ///< as forward saved them
  const T* dy;                           ///< [rows, C]
  const T* residual_gradient = nullptr;  ///< [rows, C], added to dx; null: none
};
template <typename T>
struct LayerNormGradients {
  T* dx;                 ///< [rows, C]; may be dy or residual_gradient
  float *dgain, *dbias;  ///< [C], overwritten
};
/// Rows are summed in fixed groups, so the result does not depend on the number of threads.
/// workspace: layernorm_workspace_bytes(shape).
template <typename T>
void layernorm_backward(RowShape shape, const LayerNormBackwardInputs<T>& in, const LayerNormGradients<T>& out,
                        Span<std::byte> workspace);
std::size_t layernorm_workspace_bytes(RowShape shape);

}  // namespace shoal::kernels
