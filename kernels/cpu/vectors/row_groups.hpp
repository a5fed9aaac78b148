// SPDX-License-Identifier: Apache-2.0
// Sums of each column over the rows, in the order of rules/row_groups.hpp.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/common/parallel_for.hpp"
#include "kernels/cpu/vectors/simd.hpp"
#include "kernels/rules/row_groups.hpp"

namespace shoal::kernels {

/// sums[c] = sum of partials[g][c] over the groups g in order. There are `stride` floats from one partial row to the next.
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
