// SPDX-License-Identifier: Apache-2.0
#include "segments.hpp"

#include <algorithm>
#include <cmath>

#include "shoal/base/error.hpp"
#include "shoal/model/model.hpp"
#include "shoal/model/segment_length.hpp"

namespace shoal::model {

std::size_t segment_length(std::size_t layers, std::int64_t interval) {
  require(layers > 0 && interval >= ActivationOptions::automatic, "activations of every ", interval, "th of ", layers,
          " layers");
  if (interval == ActivationOptions::automatic) return static_cast<std::size_t>(std::lround(std::sqrt(layers)));
  return interval == 0 ? layers : std::min(layers, static_cast<std::size_t>(interval));
}

Segments::Segments(std::size_t layers, std::int64_t interval)
    : layers_(layers), longest_(segment_length(layers, interval)) {}

std::size_t Segments::first_of(std::size_t layer) const {
  const std::size_t to_the_end = ((layers_ - 1 - layer) / longest_ + 1) * longest_;
  return layers_ - std::min(layers_, to_the_end);
}

double repeated_flops(const std::vector<UnitCost>& costs, Range layers, std::int64_t interval, bool last_kept) {
  double flops = 0;
  Segments(layers.size(), interval)
      .backward(
          last_kept, [&](std::size_t layer) { flops += costs[layers.begin + layer].forward_flops; },
          [&](std::size_t layer, bool again) { flops += again ? costs[layers.begin + layer].repeated_flops : 0; });
  return flops;
}

UseOrders use_orders_of(const Segments& segments, const PartLayers& part, const std::vector<int>& head, bool training) {
  constexpr int embedding = 0, first_layer = 1;
  const auto unit = [&](std::size_t layer) { return first_layer + static_cast<int>(part.layers.begin + layer); };
  UseOrders orders;
  if (part.embedding) orders.forward.push_back({embedding});
  for (std::size_t layer = 0; layer < segments.layers(); ++layer) orders.forward.push_back({unit(layer)});
  if (part.head) orders.forward.push_back(head);
  if (!training) return orders;
  for (const bool whole : {true, false}) {
    UseOrder& order = whole ? orders.backward : orders.recomputing_backward;
    segments.backward(
        whole, [&](std::size_t layer) { order.push_back({unit(layer)}); },
        [&](std::size_t layer, bool) { order.push_back({unit(layer)}); });
  }
  return orders;
}

}  // namespace shoal::model
