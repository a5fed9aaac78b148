// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/state_places.hpp"

namespace shoal::zero {

std::vector<StatePlaces> state_places(const OffloadOptions& options, const Stage& stage,
                                      const std::vector<ShardLayout>& layouts) {
  std::vector<StatePlaces> places(layouts.size());
  for (std::size_t u = 0; u < layouts.size(); ++u) {
    if (layouts[u].gathered) places[u].params = options.params;
  }
  if (options.optimizer == Where::device || !stage.shards_optimizer) return places;
  std::size_t all = 0, down = 0;
  for (const ShardLayout& layout : layouts) all += layout.elements;
  const double most = options.optimizer_ratio * static_cast<double>(all);
  for (std::size_t u = layouts.size(); u-- > 0;) {
    if (static_cast<double>(down + layouts[u].elements) > most) break;
    down += layouts[u].elements;
    places[u].optimizer = options.optimizer;
    if (stage.shards_gradients) places[u].gradients = Where::cpu;
  }
  return places;
}

double offloaded_part(const std::vector<StatePlaces>& places, const std::vector<ShardLayout>& layouts) {
  std::size_t all = 0, down = 0;
  for (std::size_t u = 0; u < layouts.size(); ++u) {
    all += layouts[u].elements;
    if (places[u].optimizer != Where::device) down += layouts[u].elements;
  }
  return all == 0 ? 0.0 : static_cast<double>(down) / static_cast<double>(all);
}

}  // namespace shoal::zero
