// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "mlp.hpp"
#include "shoal/base/error.hpp"

namespace shoal::model::mlp {

std::vector<UnitLayout> layout(const ModelOptions& o) {
  // He et al. (2015): so a layer with ReLU does not change the variance of the signal.
  const auto deviation = [](std::size_t inputs) { return std::sqrt(2.0F / static_cast<float>(inputs)); };
  std::vector<UnitLayout> units;
  UnitLayout embedding{"embedding", {}, 0};
  embedding.add("embedding.weight", {o.vocab_size, o.n_embd}, 1);
  units.push_back(embedding);
  std::size_t inputs = o.block_size * o.n_embd;
  for (std::size_t i = 0; i < o.n_layer; ++i) {
    const std::string name = text("hidden.", i);
    UnitLayout hidden{name, {}, 0};
    hidden.add(name + ".weight", {inputs, o.inner()}, deviation(inputs));
    hidden.add(name + ".bias", {o.inner()}, 0);
    units.push_back(hidden);
    inputs = o.inner();
  }
  UnitLayout head{"head", {}, 0};
  head.add("head.weight", {inputs, o.vocab_size}, 1.0F / std::sqrt(static_cast<float>(inputs)));
  head.add("head.bias", {o.vocab_size}, 0);
  units.push_back(head);
  return units;
}

Segments segments(const ModelOptions& o, const Capacity& capacity) {
  return {layers_of(capacity.part, o.n_layer).count(), capacity.training ? capacity.checkpoint_interval : 0};
}

UseOrders use_orders(const ModelOptions& o, const Capacity& capacity) {
  return use_orders_of(segments(o, capacity), layers_of(capacity.part, o.n_layer), {static_cast<int>(o.n_layer) + 1},
                       capacity.training);
}

std::vector<std::string> problems(const ModelOptions& o) {
  if (o.dropout == 0) return {};
  return {text("model.dropout = ", o.dropout, ": model.kind = mlp has no dropout; allowed: 0")};
}

}  // namespace shoal::model::mlp
