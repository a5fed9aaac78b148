// SPDX-License-Identifier: Apache-2.0
#include "plan/pipeline/pipeline_copies.hpp"

namespace shoal::plan {

std::vector<CopyBytes> copies_of(const zero::EngineOptions& options, int data_ranks) {
  const bool in_part = data_ranks > 1 && zero::stage_of(options.zero).shards_optimizer;
  std::vector<CopyBytes> copies;
  for (const model::UnitLayout& unit : model::layout(options.model)) {
    if (!unit.copy_of) continue;
    CopyBytes& copy = copies.emplace_back();
    for (int d = 0; d < data_ranks; ++d) {
      const std::size_t shard = zero::shard_of(unit.elements, d, data_ranks).size();
      copy.gradient.push_back(shard * size_of(options.gradients.dtype));
      copy.parameters.push_back((in_part ? shard : unit.elements) * size_of(options.dtype));
    }
  }
  return copies;
}

}  // namespace shoal::plan
