// SPDX-License-Identifier: Apache-2.0
#include "zero/gradient_squares.hpp"

#include <algorithm>
#include <numeric>

#include "shoal/kernels/reduce.hpp"
#include "zero/tree_sum.hpp"

namespace shoal::zero {

GradientSquares::GradientSquares(Squares squares, const std::vector<ShardLayout>& layouts, const RankGroups& groups,
                                 std::size_t micro_steps, Memory& memory)
    : layouts_(layouts), groups_(groups) {
  if (squares == Squares::none) return;
  if (squares == Squares::weighted) weights_ = SampledWeights(layouts, groups, memory);
  std::size_t largest = 0;
  for (const ShardLayout& layout : layouts) largest = std::max(largest, granule_count(layout.elements));
  granule_sums_ = memory.take<double>(Kind::buffers, largest, "sums by piece");
  sums_ = device::Cells(memory, micro_steps * layouts.size(), "sums by micro-step");
}

void GradientSquares::measure(int unit, const float* gradient, std::size_t micro_step) {
  if (sums_.size() == 0) return;
  const auto u = static_cast<std::size_t>(unit);
  const std::size_t elements = layouts_[u].elements, granules = granule_count(elements);
  const Span<double> sums = granule_sums_.first(granules);
  if (weights_.used()) {
    weights_.square(unit, 0, DType::f32, gradient, sums);
  } else {
    kernels::sum_of_squares_by_granule(elements, gradient, sums.data());
  }
  // The whole tree is one subtree. An empty unit has none, and its sum stays 0.
  kernels::sum_subtrees(subtrees(granules, {0, granules}), sums.data(), sums_.cell(micro_step * layouts_.size() + u));
}

void GradientSquares::fetch() {
  if (sums_.size() > 0) sums_.fetch();
}

void GradientSquares::share() { share_over_model(groups_, sums_.values()); }

double GradientSquares::of_micro_step(std::size_t micro_step) const {
  if (sums_.size() == 0) return 0.0;
  const Span<const double> by_unit = sums_.values().subspan(micro_step * layouts_.size(), layouts_.size());
  return std::accumulate(by_unit.begin(), by_unit.end(), 0.0);
}

}  // namespace shoal::zero
