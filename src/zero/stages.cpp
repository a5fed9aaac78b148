// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

std::vector<Holding> holdings(const std::vector<model::UnitLayout>& units, const ZeroOptions& options,
                              const Placement& placement) {
  const Stage& stage = stages.at(static_cast<std::size_t>(options.stage));
  const bool several = placement.ranks > 1;
  std::vector<Holding> result;
  for (const model::UnitLayout& unit : units) {
    Holding holding;
    const Range whole = {0, unit.elements};
    holding.elements = unit.elements;
    holding.shard = shard_of(unit.elements, placement.rank, placement.ranks);
    holding.gathered = several && stage.shards_parameters && unit.elements >= options.persist_below;
    holding.published = several && stage.shards_optimizer && !holding.gathered;
    holding.parameters = holding.gathered ? holding.shard : whole;
    holding.gradients = stage.shards_gradients ? holding.shard : whole;
    holding.optimizer = stage.shards_optimizer ? holding.shard : whole;
    result.push_back(holding);
  }
  return result;
}

}  // namespace shoal::zero
