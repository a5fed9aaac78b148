// SPDX-License-Identifier: Apache-2.0
// How a matrix product is cut into tiles of C. One thread computes a tile with one call of a Product.
#pragma once

#include <algorithm>
#include <cstddef>

#include "shoal/base/types.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

/// Number of parts of this size that cover the whole.
constexpr std::size_t parts(std::size_t whole, std::size_t part) { return (whole + part - 1) / part; }

/// A stride for A in weight gradients in fp32, where oneDNN reads the transposed A down its columns. If the rows are a
/// multiple of a few KiB apart they fall into few sets of the L1 cache, and the product takes up to a quarter longer. If
/// there is no gap between the rows, oneDNN uses another kernel, which is slower, too. This stride avoids both: it is an odd
/// number of cache lines, and there is a gap.
constexpr std::size_t spread_stride(std::size_t columns) {
  constexpr std::size_t line = 64 / sizeof(float);
  return (parts(columns + 1, line) | 1U) * line;
}
constexpr bool is_spread(std::size_t columns, std::size_t stride) {
  return stride > columns && stride == spread_stride(stride - 1);
}

/// The longest sum over the whole of which A is packed. Of longer ones only few micro-panels would fit the caches.
inline constexpr std::size_t longest_packed = 4096;

struct ProductShape {
  std::size_t m, n, k;
  Transpose a, b;
  DType type;    ///< of A and B
  DType result;  ///< of C
};

template <typename T, typename R>
ProductShape product_shape(const MatmulShape& s) {
  return {.m = s.m, .n = s.n, .k = s.k, .a = s.transpose_a, .b = s.transpose_b, .type = dtype_of<T>, .result = dtype_of<R>};
}

struct Tiling {
  std::size_t rows, columns;   ///< of a tile; those at the lower and right edge of C may be smaller
  std::size_t flops_per_call;  ///< what one thread computes in about 10 ms; a tile may have up to 1.5 times as many

  std::size_t down(const ProductShape& s) const { return parts(s.m, rows); }
  std::size_t across(const ProductShape& s) const { return parts(s.n, columns); }
  /// Number of tiles of one launch. After each launch communication in flight makes progress.
  std::size_t per_launch(const ProductShape& s, std::size_t threads) const {
    return std::max<std::size_t>(1, threads * (flops_per_call / std::max<std::size_t>(1, 2 * rows * columns * s.k)));
  }
};

/// Returns true if blocked_product.hpp computes such a product, and false if oneDNN does. It depends on the shape of the
/// whole product and on the processor.
bool is_blocked(const ProductShape& shape);
/// Returns true if blocked_product.hpp computes C' = B' A instead of C = A' B. Packing transposes the first factor but not
/// the second one, so the first one should be the smaller matrix.
bool is_transposed(const ProductShape& shape);

/// The bits of oneDNN's results depend on the shape of a tile, so its tiles are the same for any number of threads.
Tiling tiling_of(const ProductShape& shape, std::size_t threads);

}  // namespace shoal::kernels
