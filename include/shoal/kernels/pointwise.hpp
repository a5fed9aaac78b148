// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels and sums over rows. GELU in the tanh form of Hendrycks and Gimpel (2016), as GPT-2 has it.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// g = gelu(u), elementwise.
template <typename T>
void gelu_forward(std::size_t n, const T* u, T* g);

/// One pass of backward for rows x C: g = gelu(u) again (an operand of the weight gradient), du = dg * gelu'(u), and
/// dbias[C] = sum of du over rows (overwritten). du may be dg or u. workspace: column_sum_workspace_bytes(rows, C).
template <typename T>
void gelu_backward(std::size_t rows, std::size_t C, const T* u, const T* dg, T* g, T* du, float* dbias,
                   Span<std::byte> workspace);

/// sums[C] = sum over rows of x (overwritten), rows in fixed groups.
template <typename T>
void column_sum(std::size_t rows, std::size_t C, const T* x, float* sums, Span<std::byte> workspace);
std::size_t column_sum_workspace_bytes(std::size_t rows, std::size_t C);

/// into += from: in float, and rounded once.
template <typename T>
void add(std::size_t n, const T* from, T* into);
/// y = x elementwise in another type. To a smaller one, y may begin where x does: it then overwrites x's front half.
template <typename From, typename To>
void convert(std::size_t n, const From* x, To* y);
void fill(std::size_t n, float value, float* x);
void copy_bytes(std::size_t bytes, const void* from, void* to);

/// x = max(x, 0); and its backward: dx = dy where y > 0, else 0 (dx may be dy).
template <typename T>
void relu_forward(std::size_t n, T* x);
template <typename T>
void relu_backward(std::size_t n, const T* y, const T* dy, T* dx);

}  // namespace shoal::kernels
