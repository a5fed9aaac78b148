// SPDX-License-Identifier: Apache-2.0
// Matrix products, row-major. Of the tuned kernels, our own compute most of them on processors with AVX2 alone, on those
// with AMX, and in bf16 on those with AVX512_BF16; oneDNN computes the rest. A large product is cut into parts, so that
// communication in flight makes progress at least every 20 ms. The result does not depend on the number of threads.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// A view of rows x columns elements: element (i, j) is data[i * stride + j].
template <typename T>
struct Matrix {
  T* data;
  std::size_t rows, columns, stride;
  Matrix(T* at, std::size_t r, std::size_t c) : data(at), rows(r), columns(c), stride(c) {}
  Matrix(T* at, std::size_t r, std::size_t c, std::size_t s) : data(at), rows(r), columns(c), stride(s) {}
};

enum class Transpose : std::uint8_t { no, yes };

/// What a product applies to its sums p = op(A) op(B) + bias before they are rounded. Only libraries of GPUs do that
/// (products.hpp): elsewhere anything but `none` is an error. Not together with `added`.
enum class Activation : std::uint8_t {
  none,
  gelu,           ///< u = p and C = gelu(p)
  gelu_backward,  ///< C = p gelu'(u)
};

/// The operands of C = op(A) op(B) [+ bias] [+ added], where op(A) is [m, k], op(B) is [k, n] and C is [m, n].
template <typename T, typename R>
struct MatmulInputs {
  Matrix<const T> a, b;
  Transpose transpose_a = Transpose::no, transpose_b = Transpose::no;
  const T* bias = nullptr;   ///< [n], added to each row of C; null: none
  const R* added = nullptr;  ///< [m, n] with C's stride; may be C, which then accumulates; null: none
  Activation activation = Activation::none;
  R* u = nullptr;  ///< [m, n] with C's stride, for an activation alone; gelu_backward only reads it
};

/// Products are summed in float. Instances <A and B, C>: <float, float>, <bf16, bf16>, <bf16, float>, <f16, f16>,
/// <f16, float>.
/// Nothing is computed in fp16: parts of A and B are converted to float and multiplied as such. The same holds for bf16 in
/// portable kernels, and on processors without instructions for it. With AMX, the tuned kernels' float matrices are
/// multiplied as sums of bf16 numbers, as accurately as with fused multiply-adds of floats
/// (kernels/cpu/product/blocked_fp32.cpp). workspace: at least matmul_workspace_bytes() of the product's shape. On a GPU the
/// product must have been listed before (products.hpp); elsewhere any product is computed.
template <typename T, typename R>
void matmul(const char* label, const MatmulInputs<T, R>& in, Matrix<R> c, Span<std::byte> workspace);

/// Everything that the workspace of a product depends on. Strides are elements from the start of one row to the start of the
/// next, of A, B and C as stored; 0: rows follow one another without gaps.
struct MatmulShape {
  std::size_t m = 0, n = 0, k = 0;
  Transpose transpose_a = Transpose::no, transpose_b = Transpose::no;
  bool bias = false, added = false;
  Activation activation = Activation::none;
  std::size_t a_stride = 0, b_stride = 0, c_stride = 0;
  auto operator<=>(const MatmulShape&) const = default;  // NOLINT(modernize-use-nullptr): it is no pointer
};
/// Bytes for packed operands, the library's own needs and panels in float; portable kernels need none. The library copies
/// some operands because of their strides, so a product may need more with gaps than without.
template <typename T, typename R>
std::size_t matmul_workspace_bytes(const MatmulShape& shape);

}  // namespace shoal::kernels
