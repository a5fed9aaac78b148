// SPDX-License-Identifier: Apache-2.0
// How a matrix product is cut into tiles of C. One thread computes a tile with one call of a Product.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/product/multiplier.hpp"

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

struct Tiling {
  std::size_t rows, columns;   ///< of a tile; those at the lower and right edge of C may be smaller
  std::size_t flops_per_call;  ///< what one thread computes in about 10 ms; a tile may have up to 1.5 times as many

  std::size_t down(const ProductShape& s) const { return parts(s.m, rows); }
  std::size_t across(const ProductShape& s) const { return parts(s.n, columns); }
  /// Number of tiles of one launch: as many for each thread. After each launch communication in flight makes progress.
  std::size_t per_launch(const ProductShape& s, std::size_t threads) const {
    return threads * std::max<std::size_t>(1, flops_per_call / (2 * rows * columns * s.k));
  }
};

/// Returns true if blocked_product.hpp computes C' = B' A instead of C = A' B. Packing transposes the first factor but not
/// the second one, so the first one should be the smaller matrix.
bool is_transposed(const ProductShape& shape);

/// The bits of oneDNN's results depend on the shape of a tile, so its tiles are the same for any number of threads. The
/// shape must not be one of Multiplier::widened.
Tiling tiling_of(const ProductShape& shape, std::size_t threads, const Abilities& can = abilities());

}  // namespace shoal::kernels
