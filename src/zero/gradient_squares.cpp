// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/gradient_squares.hpp"

#include <algorithm>
#include <numeric>

#include "shoal/kernels/reduce.hpp"
#include "shoal/zero/tree_sum.hpp"

namespace shoal::zero {

GradientSquares::GradientSquares(Squares squares, const std::vector<ShardLayout>& layouts, const RankGroups& groups,
                                 Memory& memory)
    : layouts_(layouts) {
  if (squares == Squares::none) return;
  if (squares == Squares::weighted) weights_ = SampledWeights(layouts, groups, memory);
  std::size_t largest = 0;
  for (const ShardLayout& layout : layouts) largest = std::max(largest, granule_count(layout.elements));
  granule_sums_ = memory.take<double>(Kind::buffers, largest, "sums by piece");
  unit_.resize(layouts.size(), 0.0);
}

void GradientSquares::measure(int unit, const float* gradient) {
  if (unit_.empty()) return;
  const auto u = static_cast<std::size_t>(unit);
  const std::size_t elements = layouts_[u].elements, granules = granule_count(elements);
  const Span<double> sums = granule_sums_.first(granules);
  if (weights_.used()) {
    weights_.square(unit, 0, DType::f32, gradient, sums);
  } else {
    kernels::sum_of_squares_by_granule(elements, gradient, sums.data());
  }
  const std::vector<double> whole = subtree_sums(granules, {0, granules}, sums);  // one sum, or none if the unit is empty
  unit_[u] = whole.empty() ? 0.0 : whole.front();
}

double GradientSquares::of_micro_step() const { return std::accumulate(unit_.begin(), unit_.end(), 0.0); }

}  // namespace shoal::zero
