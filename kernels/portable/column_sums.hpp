// SPDX-License-Identifier: Apache-2.0
// Sums of each column over the rows, in the order of rules/row_groups.hpp.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/common/column_workspace.hpp"
#include "kernels/portable/launch.hpp"
#include "kernels/rules/row_groups.hpp"
#include "shoal/kernels/pointwise.hpp"

namespace shoal::kernels::portable {

namespace columns {

/// On a CPU: a team sums some columns, in its scratch memory, row by row.
inline constexpr std::size_t per_team = 256;

/// The columns of tile `tile`.
SHOAL_FUNCTION Range of_tile(std::size_t tile, std::size_t columns) {
  return {tile * per_team, smaller((tile + 1) * per_team, columns)};
}
inline std::size_t tiles(std::size_t columns) { return parts(columns, per_team); }

template <class Compute, class Term>
void sum_by_teams(const char* label, RowShape shape, std::size_t group_size, float* sums, std::size_t stride,
                  const Compute& compute, const Term& term) {
  const std::size_t rows = shape.rows, C = shape.C, tiles_of_row = tiles(C);
  for_teams(
      label, parts(rows, group_size) * tiles_of_row, per_team * sizeof(float),
      SHOAL_LAMBDA(std::size_t item, const Team& team) {
        const std::size_t group = item / tiles_of_row, end = smaller((group + 1) * group_size, rows);
        const Range range = of_tile(item % tiles_of_row, C);
        auto* const sum = reinterpret_cast<float*>(team.scratch());
        team.each(range.size(), [&](std::size_t c) { sum[c] = 0.0F; });
        for (std::size_t row = group * group_size; row < end; ++row) {
          team.each(range.size(), [&](std::size_t c) { term(row, range.begin + c, compute(row, range.begin + c), sum[c]); });
        }
        team.each(range.size(), [&](std::size_t c) { sums[group * stride + range.begin + c] = sum[c]; });
      });
}

/// On a GPU: a thread sums a column of a group, in a register. The loads of several rows are under way together.
template <class Compute, class Term>
void sum_by_threads(const char* label, RowShape shape, std::size_t group_size, float* sums, std::size_t stride,
                    const Compute& compute, const Term& term) {
  const std::size_t rows = shape.rows, C = shape.C;
  for_elements(
      label, parts(rows, group_size) * C, SHOAL_LAMBDA(std::size_t item) {
        constexpr std::size_t at_a_time = 16;
        const std::size_t group = item / C, column = item % C, end = smaller((group + 1) * group_size, rows);
        std::size_t row = group * group_size;
        float sum = 0.0F;
        for (; row + at_a_time <= end; row += at_a_time) {
          decltype(compute(row, column)) values[at_a_time];
          SHOAL_UNROLL
          for (std::size_t k = 0; k < at_a_time; ++k) values[k] = compute(row + k, column);
          SHOAL_UNROLL
          for (std::size_t k = 0; k < at_a_time; ++k) term(row + k, column, values[k], sum);
        }
        for (; row < end; ++row) term(row, column, compute(row, column), sum);
        sums[group * stride + column] = sum;
      });
}

}  // namespace columns

/// sums[group * stride + column] = the sum of the column over the rows of the group, one after another from zero. Groups
/// have group_size rows. term(row, column, compute(row, column), sum) adds an element to `sum`, and may write results that
/// no other element reads; compute only reads.
template <class Compute, class Term>
void sum_columns(const char* label, RowShape shape, std::size_t group_size, float* sums, std::size_t stride,
                 const Compute& compute, const Term& term) {
  if constexpr (on_host) {
    columns::sum_by_teams(label, shape, group_size, sums, stride, compute, term);
  } else {
    columns::sum_by_threads(label, shape, group_size, sums, stride, compute, term);
  }
}

/// On a GPU: to(c, the sum of partials[g * stride + c] over the groups g, in order). There are few columns, so a team reads
/// many groups of some columns at once, and some of its threads add them.
template <class To>
void join_by_teams(const char* label, std::size_t groups, std::size_t C, const float* partials, std::size_t stride,
                   const To& to) {
  constexpr std::size_t per_team = 32, most_groups = 256, at_a_time = 32;
  for_teams(
      label, parts(C, per_team), most_groups * per_team * sizeof(float), SHOAL_LAMBDA(std::size_t tile, const Team& team) {
        auto* const staged = reinterpret_cast<float*>(team.scratch());
        const std::size_t first = tile * per_team, columns = smaller(per_team, C - first), own = team.thread();
        float sum = 0.0F;  // of column first + own
        for (std::size_t begin = 0; begin < groups; begin += most_groups) {
          const std::size_t count = smaller(most_groups, groups - begin) * per_team;
          for (std::size_t i = own; i < count; i += at_a_time * team.threads()) {
            float read[at_a_time];
            SHOAL_UNROLL
            for (std::size_t k = 0; k < at_a_time; ++k) {
              const std::size_t j = i + k * team.threads(), column = j % per_team;
              read[k] = j < count && column < columns ? partials[(begin + j / per_team) * stride + first + column] : 0.0F;
            }
            SHOAL_UNROLL
            for (std::size_t k = 0; k < at_a_time; ++k) {
              if (i + k * team.threads() < count) staged[i + k * team.threads()] = read[k];
            }
          }
          team.sync();
          if (own < columns) {
            std::size_t i = own;
            for (; i + (at_a_time - 1) * per_team < count; i += at_a_time * per_team) {
              float read[at_a_time];
              SHOAL_UNROLL
              for (std::size_t k = 0; k < at_a_time; ++k) read[k] = staged[i + k * per_team];
              SHOAL_UNROLL
              for (const float value : read) sum += value;
            }
            for (; i < count; i += per_team) sum += staged[i];
          }
          team.sync();
        }
        if (own < columns) to(first + own, sum);
      });
}

inline void join_on_host(const char* label, std::size_t groups, std::size_t C, const float* partials, std::size_t stride,
                         float* sums) {
  sum_columns(
      label, {groups, C}, groups, sums, C,
      SHOAL_LAMBDA(std::size_t group, std::size_t column) { return partials[group * stride + column]; },
      SHOAL_LAMBDA(std::size_t, std::size_t, float partial, float& sum) { sum += partial; });
}

/// sums[c] = sum of partials[g * stride + c] over the groups g, in order.
inline void join_row_groups(const char* label, std::size_t groups, std::size_t C, const float* partials, std::size_t stride,
                            float* sums) {
  if constexpr (on_host) {
    join_on_host(label, groups, C, partials, stride, sums);
  } else {
    join_by_teams(label, groups, C, partials, stride, Rounded<float>{sums});
  }
}

/// sums[c] = the sum of column c over all rows, in the order of rules/row_groups.hpp. The workspace has
/// column_sum_workspace_bytes(shape).
template <class Compute, class Term>
void column_sums(const char* label, RowShape shape, float* sums, Span<std::byte> workspace, const Compute& compute,
                 const Term& term) {
  float* const partials = partial_sums_in(workspace, column_sum_workspace_bytes(shape), label, shape);
  sum_columns(label, shape, rows_per_group, partials, shape.C, compute, term);
  join_row_groups("join_row_groups", row_groups(shape.rows), shape.C, partials, shape.C, sums);
}

}  // namespace shoal::kernels::portable
