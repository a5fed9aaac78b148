// SPDX-License-Identifier: Apache-2.0
// Matrix products, row-major: oneDNN on CPUs, and our own kernels on those with AMX. Large products are cut, so that open
// communication makes progress at least every 20 ms; the result does not depend on the number of threads.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// A view of rows x columns elements; element (i, j) stands at data[i * stride + j].
template <typename T>
struct Matrix {
  T* data;
  std::size_t rows, columns, stride;
  Matrix(T* at, std::size_t r, std::size_t c) : data(at), rows(r), columns(c), stride(c) {}
  Matrix(T* at, std::size_t r, std::size_t c, std::size_t s) : data(at), rows(r), columns(c), stride(s) {}
};

enum class Transpose { no, yes };

/// C = op(A) op(B), and then by choice + bias (one per column of C), + a matrix of C's shape and stride: `added`, or what C
/// holds already where that is null.
/// op(A) is [m, k], op(B) is [k, n], C is [m, n]; op transposes where asked. Products are summed in float.
/// Instances <A and B, C>: <float, float>, <bf16, bf16>, <bf16, float>, <f16, f16>, <f16, float>. fp16 is storage, and
/// so is bf16 where a processor has no instructions for it: they are widened, panel by panel, and multiplied as float. With
/// AMX, products of floats are those of their bf16 parts, to the accuracy of multiply-adds in float
/// (kernels/blocked_fp32.cpp).
struct MatmulOptions {
  Transpose a = Transpose::no, b = Transpose::no;
  bool accumulate = false;  ///< add that matrix
};
template <typename T, typename R>
void matmul(const char* label, Matrix<const T> a, Matrix<const T> b, Matrix<R> c, const MatmulOptions& options = {},
            const T* bias = nullptr, const R* added = nullptr);

/// Elements from the begin of one row to that of the next, of A, B and C as stored; 0: rows follow one another without a
/// gap.
struct MatmulStrides {
  std::size_t a = 0, b = 0, c = 0;
};
/// Bytes of workspace for such a product: packed operands, what the library wants, and widened panels. The library copies
/// some operands because of their strides, so that a product may want more with gaps than without. The largest workspace is
/// planned for by the model and handed in by set_matmul_workspace() before the first product.
template <typename T, typename R>
std::size_t matmul_workspace_bytes(std::size_t m, std::size_t n, std::size_t k, const MatmulOptions& options, bool bias,
                                   const MatmulStrides& strides = {});
void set_matmul_workspace(Span<std::byte> workspace);

}  // namespace shoal::kernels
