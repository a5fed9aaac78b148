// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/reduce.hpp"

#include <algorithm>
#include <vector>

#include "kernels/common/instances.hpp"
#include "kernels/cpu/vectors/loops.hpp"
#include "kernels/cpu/vectors/simd.hpp"

namespace shoal::kernels {

using simd::Doubles;
using simd::Floats;
using simd::for_vectors;
using simd::load;

namespace {

/// Sum, in double, of at most a few thousand elements, each of which term() has changed: two vectors of eight partial sums,
/// then the sum over the lanes.
template <typename T, class Term>
SHOAL_INLINE double sum_of(std::size_t n, const T* x, const Term& term) {
  Doubles low{};
  Doubles high{};
  for_vectors(n, [&](std::size_t i, auto part) {
    const Floats v = load(x + i, part);  // zero behind the last element, and term() keeps zeros
    Doubles a = simd::lower(v);
    Doubles b = simd::upper(v);
    term(a);
    term(b);
    low += a;
    high += b;
  });
  return simd::sum(low + high);
}

}  // namespace

template <typename T>
void sum_of_squares_by_granule(std::size_t n, const T* x, double* sums) {
  for_elements("sum_of_squares", n, [=](std::size_t begin, std::size_t count) {
    static_assert(item_elements % granule == 0);
    for (std::size_t i = begin; i < begin + count; i += granule) {
      sums[i / granule] = sum_of(std::min(granule, n - i), x + i, [](Doubles& v) { v *= v; });
    }
  });
}

void sum(std::size_t n, const float* x, double* sum) {
  constexpr std::size_t group = 4096;
  std::vector<double> partials((n + group - 1) / group);
  parallel_for("sum", partials.size(),
               [&](std::size_t g) { partials[g] = sum_of(std::min(group, n - g * group), x + g * group, [](Doubles&) {}); });
  double total = 0.0;
  for (const double partial : partials) total += partial;
  *sum = total;
}

void sum_subtrees(const Subtrees& subtrees, double* values, double* sums) {
  parallel_for("sum_subtrees", subtrees.count, [&subtrees, values, sums](std::size_t subtree) {
    const std::size_t length = subtrees.begin[subtree + 1] - subtrees.begin[subtree];
    double* const at = values + subtrees.begin[subtree];
    for (std::size_t distance = 1; distance < length; distance *= 2) {
      for (std::size_t i = 0; i + distance < length; i += 2 * distance) at[i] += at[i + distance];
    }
    sums[subtree] = at[0];
  });
}

SHOAL_FOR_TYPES(sum_of_squares_by_granule);

}  // namespace shoal::kernels
