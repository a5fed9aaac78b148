// SPDX-License-Identifier: Apache-2.0
// Sums of each column over the rows, in the order of rules/row_groups.hpp.
#pragma once

#include <algorithm>
#include <cstddef>

#include "../column_workspace.hpp"
#include "../rules/row_groups.hpp"
#include "launch.hpp"
#include "shoal/kernels/pointwise.hpp"

namespace shoal::kernels::portable {

/// Columns that a team sums. Their sums are in its scratch memory.
inline constexpr std::size_t columns_per_team = 256;

/// The columns of tile `tile`.
SHOAL_FUNCTION Range columns_of(std::size_t tile, std::size_t columns) {
  return {tile * columns_per_team, smaller((tile + 1) * columns_per_team, columns)};
}
inline std::size_t column_tiles(std::size_t columns) { return parts(columns, columns_per_team); }

/// sums[c] = sum of partials[g * stride + c] over the groups g, in order.
inline void join_row_groups(const char* label, std::size_t groups, std::size_t columns, const float* partials,
                            std::size_t stride, float* sums) {
  for_teams(
      label, column_tiles(columns), columns_per_team * sizeof(float), SHOAL_LAMBDA(std::size_t tile, const Team& team) {
        const Range range = columns_of(tile, columns);
        auto* const total = reinterpret_cast<float*>(team.scratch());
        team.each(range.size(), [&](std::size_t c) { total[c] = 0.0F; });
        for (std::size_t g = 0; g < groups; ++g) {
          const float* const partial = partials + g * stride + range.begin;
          team.each(range.size(), [&](std::size_t c) { total[c] += partial[c]; });
        }
        team.each(range.size(), [&](std::size_t c) { sums[range.begin + c] = total[c]; });
      });
}

/// sums[c] = sum of value(row * C + c) over the rows. Calls value once for each element; it may also write results.
/// The workspace has column_sum_workspace_bytes(shape).
template <class Value>
void column_sums(const char* label, RowShape shape, float* sums, Span<std::byte> workspace, const Value& value) {
  const std::size_t rows = shape.rows, C = shape.C, groups = row_groups(rows), tiles = column_tiles(C);
  float* const partials = partial_sums_in(workspace, column_sum_workspace_bytes(shape), label, shape);
  for_teams(
      label, groups * tiles, columns_per_team * sizeof(float), SHOAL_LAMBDA(std::size_t item, const Team& team) {
        const std::size_t group = item / tiles;
        const Range columns = columns_of(item % tiles, C), range = rows_of_group(group, rows);
        auto* const partial = reinterpret_cast<float*>(team.scratch());
        team.each(columns.size(), [&](std::size_t c) { partial[c] = 0.0F; });
        for (std::size_t row = range.begin; row < range.end; ++row) {
          team.each(columns.size(), [&](std::size_t c) { partial[c] += value(row * C + columns.begin + c); });
        }
        team.each(columns.size(), [&](std::size_t c) { partials[group * C + columns.begin + c] = partial[c]; });
      });
  join_row_groups("join_row_groups", groups, C, partials, C, sums);
}

}  // namespace shoal::kernels::portable
