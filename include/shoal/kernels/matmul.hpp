// SPDX-License-Identifier: Apache-2.0
// Matrix products, row-major: oneDNN on CPUs. Large products are cut by rows, by their shape alone, so that open
// communication makes progress at least every 20 ms and the result does not depend on the number of threads.
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

/// C = op(A) op(B), and then by choice + bias (one per column of C), + what C holds already.
/// op(A) is [m, k], op(B) is [k, n], C is [m, n]; op transposes where asked. Products are summed in float.
/// Instances <A and B, C>: <float, float>, <bf16, bf16>, <bf16, float>, <f16, f16>, <f16, float>. fp16 is storage: it is
/// widened, panel by panel, and multiplied as float.
struct MatmulOptions {
  Transpose a = Transpose::no, b = Transpose::no;
  bool accumulate = false;  ///< add to what C holds
};
template <typename T, typename R>
void matmul(const char* label, Matrix<const T> a, Matrix<const T> b, Matrix<R> c, const MatmulOptions& options = {},
            const T* bias = nullptr);

/// Bytes of workspace that the library wants for such a product (0 for most), and fp16's panels. The largest one is planned
/// for by the model and handed in by set_matmul_workspace() before the first product.
template <typename T, typename R>
std::size_t matmul_workspace_bytes(std::size_t m, std::size_t n, std::size_t k, const MatmulOptions& options, bool bias);
void set_matmul_workspace(Span<std::byte> workspace);

/// GFLOP/s of a square product of this size on one rank with its threads: the measured peak that utilisation refers to.
template <typename T>
double measured_peak_gflops(std::size_t size = 2048, double seconds = 0.1);

}  // namespace shoal::kernels
