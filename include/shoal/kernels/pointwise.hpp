// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels and sums over rows. GELU in the tanh form of Hendrycks and Gimpel (2016), as in GPT-2.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"
#include "shoal/kernels/rows.hpp"

namespace shoal::kernels {

/// g = gelu(u), elementwise.
template <typename T>
void gelu_forward(std::size_t n, const T* u, T* g);

template <typename T>
struct GeluBackwardInputs {
  const T *u, *dg;  ///< [rows, C]
};
template <typename T>
struct GeluBackwardOutputs {
  T* g;          ///< [rows, C]
  T* du;         ///< [rows, C]; may be u or dg
  float* dbias;  ///< [C], overwritten
};
/// The whole backward of bias and GELU in one pass: g = gelu(u) again, which is an operand of the weight gradient,
/// du = dg * gelu'(u), and dbias = sum of du over the rows. workspace: column_sum_workspace_bytes(shape).
template <typename T>
void gelu_backward(RowShape shape, const GeluBackwardInputs<T>& in, const GeluBackwardOutputs<T>& out,
                   Span<std::byte> workspace);

/// sums[C] = sum of x over the rows (overwritten). Rows are summed in fixed groups.
template <typename T>
void column_sum(RowShape shape, const T* x, float* sums, Span<std::byte> workspace);
std::size_t column_sum_workspace_bytes(RowShape shape);

/// into += from, added in float and rounded once.
template <typename T>
void add(std::size_t n, const T* from, T* into);
/// y = x, converted elementwise to another type. If that type is smaller, y may begin where x does, and overwrites its front
/// half.
template <typename From, typename To>
void convert(std::size_t n, const From* x, To* y);
/// x = max(x, 0). Its backward: dx = y > 0 ? dy : 0; dx may be dy.
template <typename T>
void relu_forward(std::size_t n, T* x);
template <typename T>
void relu_backward(std::size_t n, const T* y, const T* dy, T* dx);

}  // namespace shoal::kernels
