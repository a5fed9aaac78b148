// SPDX-License-Identifier: Apache-2.0
// How a matrix product is cut into tiles of its result. Each tile is one Product's call on one thread.
#pragma once

#include <algorithm>
#include <cstddef>

#include "shoal/base/types.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

/// How many parts of this size cover the whole.
constexpr std::size_t parts(std::size_t whole, std::size_t part) { return (whole + part - 1) / part; }

/// The library reads A of a weight gradient (fp32, transposed) down its columns. Rows a multiple of a few KiB apart fall
/// into few sets of the L1 cache, and it takes up to a quarter longer; rows without a gap it multiplies by another kernel
/// that is slower, too. This stride, an odd number of cache lines with a gap, avoids both.
constexpr std::size_t spread_stride(std::size_t columns) {
  constexpr std::size_t line = 64 / sizeof(float);
  return (parts(columns + 1, line) | 1U) * line;
}
constexpr bool is_spread(std::size_t columns, std::size_t stride) {
  return stride > columns && stride == spread_stride(stride - 1);
}

struct ProductShape {
  std::size_t m, n, k;
  Transpose a, b;
  DType type;    ///< of A and B
  DType result;  ///< of C
};

struct Tiling {
  std::size_t rows, columns;   ///< of a tile; those at the lower and right border may be smaller
  std::size_t flops_per_call;  ///< what one thread computes in about 10 ms; a tile has up to half more

  std::size_t down(const ProductShape& s) const { return parts(s.m, rows); }
  std::size_t across(const ProductShape& s) const { return parts(s.n, columns); }
  /// Tiles of one launch, after which open communication makes progress.
  std::size_t per_launch(const ProductShape& s, std::size_t threads) const {
    return std::max<std::size_t>(1, threads * (flops_per_call / std::max<std::size_t>(1, 2 * rows * columns * s.k)));
  }
};

/// Whether this folder's own kernels compute such a product (blocked_product.hpp), or the library. By the shape of the whole
/// product and the processor.
bool is_blocked(const ProductShape& shape);
/// Whether those compute C' = B' A instead of C = A' B. The left factor is turned over when it is packed, the right one
/// not: so it had better be the smaller one.
bool is_transposed(const ProductShape& shape);

/// The library's bits depend on a tile's shape: there, tiles are the same for any number of threads.
Tiling tiling_of(const ProductShape& shape, std::size_t threads);

}  // namespace shoal::kernels
