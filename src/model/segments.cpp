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

std::vector<std::vector<int>> use_order_of(const Segments& segments, const std::vector<int>& head, bool training) {
  constexpr int embedding = 0, first_layer = 1;
  const auto unit = [](std::size_t layer) { return first_layer + static_cast<int>(layer); };
  std::vector<std::vector<int>> order = {{embedding}};
  for (std::size_t layer = 0; layer < segments.layers(); ++layer) order.push_back({unit(layer)});
  order.push_back(head);
  if (training) {
    segments.backward([&](std::size_t layer) { order.push_back({unit(layer)}); },
                      [&](std::size_t layer, bool) { order.push_back({unit(layer)}); });
  }
  return order;
}

}  // namespace shoal::model
