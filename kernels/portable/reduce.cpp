// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/reduce.hpp"

#include <algorithm>
#include <vector>

#include "../rules/row_sums.hpp"
#include "launch.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

/// Parts that a team sums.
constexpr std::size_t parts_per_team = 16;

/// sums[p] = the sum of term(i) over part p of n elements; a part has `length` elements, the last one may be shorter.
template <class Term>
void sum_parts(const char* label, std::size_t n, std::size_t length, double* sums, const Term& term) {
  constexpr std::size_t chains = rules::few_chains;
  const std::size_t count = parts(n, length);
  const std::size_t scratch = parts_per_team * chains * sizeof(double);
  for_teams(
      label, parts(count, parts_per_team), scratch, SHOAL_LAMBDA(std::size_t item, const Team& team) {
        auto* const chain_sums = reinterpret_cast<double*>(team.scratch());
        const std::size_t first = item * parts_per_team;
        const std::size_t here = smaller(parts_per_team, count - first);
        team.each(here * chains, [&](std::size_t chain) {
          const std::size_t begin = (first + chain / chains) * length, end = begin + length < n ? begin + length : n;
          double sum = 0.0;
          for (std::size_t i = begin + chain % chains; i < end; i += chains) sum += term(i);
          chain_sums[chain] = sum;
        });
        team.sync();
        team.each(here, [&](std::size_t part) { sums[first + part] = rules::join_few_chains(chain_sums + part * chains); });
      });
}

}  // namespace

template <typename T>
void sum_of_squares_by_granule(std::size_t n, const T* x, double* sums) {
  sum_parts(
      "sum_of_squares", n, granule, sums, SHOAL_LAMBDA(std::size_t i) {
        const double v = static_cast<float>(x[i]);
        return v * v;
      });
}

double sum(std::size_t n, const float* x) {
  constexpr std::size_t length = 4096;
  std::vector<double> partials(parts(n, length));
  sum_parts(
      "sum", n, length, partials.data(), SHOAL_LAMBDA(std::size_t i) { return static_cast<double>(x[i]); });
  double total = 0.0;
  for (const double partial : partials) total += partial;
  return total;
}

template void sum_of_squares_by_granule<float>(std::size_t, const float*, double*);
template void sum_of_squares_by_granule<bf16>(std::size_t, const bf16*, double*);
template void sum_of_squares_by_granule<f16>(std::size_t, const f16*, double*);

}  // namespace shoal::kernels
