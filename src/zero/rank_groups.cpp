// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/rank_groups.hpp"

namespace shoal::zero {

void share_over_model(const RankGroups& groups, Span<double> numbers) {
  if (groups.model == nullptr || groups.model->size() == 1 || numbers.empty()) return;
  groups.model->all_reduce(numbers, comm::Reduce::sum).wait();
}

}  // namespace shoal::zero
