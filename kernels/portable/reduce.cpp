// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/reduce.hpp"

#include <algorithm>

#include "kernels/common/instances.hpp"
#include "kernels/portable/launch.hpp"
#include "kernels/rules/row_sums.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

constexpr std::size_t chains = rules::few_chains;

/// Cuts n elements into parts of `length`; the last one may be shorter. Adds term(i) over each of `count` parts, from part
/// `first` on: chain c of part first + p is at sums[p * chains + c] in the team's scratch memory. Waits for the other
/// threads.
template <class Term>
SHOAL_FUNCTION void sum_chains(const Team& team, std::size_t n, std::size_t length, std::size_t first, std::size_t count,
                               double* sums, const Term& term) {
  team.each(count * chains, [&](std::size_t chain) {
    const std::size_t begin = (first + chain / chains) * length, end = smaller(begin + length, n);
    double sum = 0.0;
    for (std::size_t i = begin + chain % chains; i < end; i += chains) sum += term(i);
    sums[chain] = sum;
  });
  team.sync();
}

}  // namespace

template <typename T>
void sum_of_squares_by_granule(std::size_t n, const T* x, double* sums) {
  constexpr std::size_t per_team = 16;
  const std::size_t count = parts(n, granule);
  for_teams(
      "sum_of_squares", parts(count, per_team), per_team * chains * sizeof(double),
      SHOAL_LAMBDA(std::size_t item, const Team& team) {
        auto* const chain_sums = reinterpret_cast<double*>(team.scratch());
        const std::size_t first = item * per_team, here = smaller(per_team, count - first);
        sum_chains(team, n, granule, first, here, chain_sums, [&](std::size_t i) {
          const double v = static_cast<float>(x[i]);
          return v * v;
        });
        team.each(here, [&](std::size_t part) { sums[first + part] = rules::join_few_chains(chain_sums + part * chains); });
      });
}

/// One team, since there are few numbers.
void sum(std::size_t n, const float* x, double* sum) {
  constexpr std::size_t length = 4096, at_a_time = 64;
  const std::size_t count = parts(n, length);
  for_teams(
      "sum", 1, at_a_time * chains * sizeof(double), SHOAL_LAMBDA(std::size_t, const Team& team) {
        auto* const chain_sums = reinterpret_cast<double*>(team.scratch());
        double total = 0.0;  // of thread 0
        for (std::size_t first = 0; first < count; first += at_a_time) {
          const std::size_t here = smaller(at_a_time, count - first);
          sum_chains(team, n, length, first, here, chain_sums, [&](std::size_t i) { return static_cast<double>(x[i]); });
          team.each(here, [&](std::size_t part) { rules::join_few_chains(chain_sums + part * chains); });
          team.sync();
          if (team.thread() == 0) {
            for (std::size_t part = 0; part < here; ++part) total += chain_sums[part * chains];
          }
          team.sync();
        }
        if (team.thread() == 0) *sum = total;
      });
}

namespace {

/// Cuts each range into pieces and adds within each of them, level by level, those whose distance is `distance` or more. If
/// `sums` is not null, a piece must be a whole range, and sums[i] is set to that of range i.
void sum_pieces(const Subtrees& subtrees, std::size_t length, std::size_t pieces, std::size_t distance, double* values,
                double* sums) {
  for_teams(
      "sum_subtrees", subtrees.count * pieces, 0, SHOAL_LAMBDA(std::size_t item, const Team& team) {
        const std::size_t subtree = item / pieces;
        const std::size_t end = subtrees.begin[subtree + 1];
        const std::size_t begin = smaller(subtrees.begin[subtree] + item % pieces * length, end);
        const std::size_t here = smaller(length, end - begin);
        double* const at = values + begin;
        for (std::size_t d = distance; d < here; d *= 2) {
          team.each(parts(here - d, 2 * d), [&](std::size_t pair) { at[pair * 2 * d] += at[pair * 2 * d + d]; });
          team.sync();
        }
        if (sums != nullptr && team.thread() == 0) sums[subtree] = at[0];
      });
}

}  // namespace

/// Long ranges are first summed by many teams, in pieces of a power of two, then by one team each.
void sum_subtrees(const Subtrees& subtrees, double* values, double* sums) {
  constexpr std::size_t piece = 4096;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < subtrees.count; ++i) {
    longest = std::max<std::size_t>(longest, subtrees.begin[i + 1] - subtrees.begin[i]);
  }
  if (longest > piece) sum_pieces(subtrees, piece, parts(longest, piece), 1, values, nullptr);
  sum_pieces(subtrees, longest, 1, longest > piece ? piece : 1, values, sums);
}

SHOAL_FOR_TYPES(sum_of_squares_by_granule);

}  // namespace shoal::kernels
