// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/stages.hpp"

#include <algorithm>

namespace shoal::zero {

bool gathers_units(const std::vector<ShardLayout>& layouts) {
  return std::any_of(layouts.begin(), layouts.end(), [](const ShardLayout& layout) { return layout.gathered; });
}

bool gathers_gradients(const std::vector<ShardLayout>& layouts, int ranks) {
  return ranks > 1 &&
         std::none_of(layouts.begin(), layouts.end(), [](const ShardLayout& layout) { return layout.updated_in_part(); });
}

bool crosses_stages(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts, std::size_t unit) {
  if (layouts[unit].elements == 0) return false;
  for (std::size_t copy = 0; copy < units.size(); ++copy) {
    if (!units[copy].copy_of) continue;
    const auto original = static_cast<std::size_t>(*units[copy].copy_of);
    if (unit == copy && layouts[original].elements == 0) return true;
    if (unit == original && layouts[copy].elements == 0) return true;
  }
  return false;
}

std::vector<ShardLayout> without_copies(const std::vector<model::UnitLayout>& units, std::vector<ShardLayout> layouts) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u].copy_of) layouts[u] = {};
  }
  return layouts;
}

std::vector<ShardLayout> shard_layouts(const std::vector<model::UnitLayout>& units, const ZeroOptions& options,
                                       const RankGroups& groups, const std::vector<model::Part>& parts) {
  const Stage& stage = stage_of(options);
  const bool several = groups.ranks > 1, has_all = parts.empty() || parts.front().units.empty();
  std::vector<ShardLayout> result(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (!has_all && !model::has_unit(parts, u)) continue;
    const model::UnitLayout& unit = units[u];
    ShardLayout& layout = result[u];
    const Range whole = {0, unit.elements};
    layout.elements = unit.elements;
    layout.shard = shard_of(unit.elements, groups.rank, groups.ranks);
    layout.gathered =
        (several || options.gathers_alone) && stage.shards_parameters && unit.elements >= options.persist_below;
    layout.published = several && stage.shards_optimizer && !layout.gathered;
    layout.parameters = layout.gathered ? layout.shard : whole;
    layout.gradients = stage.shards_gradients ? layout.shard : whole;
    layout.optimizer = stage.shards_optimizer ? layout.shard : whole;
    if (unit.copy_of) layout.optimizer.end = layout.optimizer.begin;
  }
  return result;
}

}  // namespace shoal::zero
