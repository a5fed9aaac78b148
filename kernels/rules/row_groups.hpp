// SPDX-License-Identifier: Apache-2.0
// The order in which columns are summed over rows, on every device: the rows of a group are added one after another,
// starting from zero, then the groups' sums are added in order. The groups depend only on the number of rows.
#pragma once

#include <algorithm>
#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// Rows that a thread sums one after another. On a CPU the partial row stays in the L1 cache for up to about 4096 columns.
inline constexpr std::size_t rows_per_group = 64;

SHOAL_FUNCTION constexpr std::size_t row_groups(std::size_t rows) { return (rows + rows_per_group - 1) / rows_per_group; }

/// Rows of group `group`.
SHOAL_FUNCTION constexpr Range rows_of_group(std::size_t group, std::size_t rows) {
  const std::size_t end = (group + 1) * rows_per_group;
  return {group * rows_per_group, end < rows ? end : rows};
}

}  // namespace shoal::kernels
