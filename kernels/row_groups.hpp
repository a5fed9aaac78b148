// SPDX-License-Identifier: Apache-2.0
// Sums over rows, column by column: fixed groups of rows are summed into partial rows, and these are added in their order.
// The groups depend on the number of rows alone.
#pragma once

#include <algorithm>
#include <cstddef>

#include "parallel_for.hpp"
#include "simd.hpp"

namespace shoal::kernels {

/// Rows summed one after another by one thread. The partial row stays in the first-level cache up to some 4096 columns.
inline constexpr std::size_t rows_per_group = 64;

constexpr std::size_t row_groups(std::size_t rows) { return (rows + rows_per_group - 1) / rows_per_group; }

/// Rows of group `group`.
constexpr Range rows_of_group(std::size_t group, std::size_t rows) {
  return {group * rows_per_group, std::min(rows, (group + 1) * rows_per_group)};
}

/// sums[c] = sum of partials[g][c] over the groups in order; partial rows stand `stride` floats apart.
inline void join_row_groups(const char* label, std::size_t groups, std::size_t columns, const float* partials,
                            std::size_t stride, float* sums) {
  constexpr std::size_t columns_per_item = 256;
  parallel_for(label, (columns + columns_per_item - 1) / columns_per_item, [=](std::size_t item) {
    const std::size_t begin = item * columns_per_item;
    simd::for_vectors(std::min(columns_per_item, columns - begin), [=](std::size_t i, auto part) {
      simd::Floats total{};
      for (std::size_t g = 0; g < groups; ++g) total += simd::load(partials + g * stride + begin + i, part);
      simd::store(sums + begin + i, total, part);
    });
  });
}

}  // namespace shoal::kernels
