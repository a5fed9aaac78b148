// SPDX-License-Identifier: Apache-2.0
// A network, a model and the passes of pipelines whose times can be computed by hand.
#pragma once

#include <vector>

#include "shoal/pipeline/border.hpp"
#include "shoal/plan/network.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::plan {

/// Measured with two ranks on each node, which use its link at the same time.
inline NetworkModel two_levels() {
  NetworkModel model;
  model.ranks_per_node = 2;
  model.node = Link{1e-6, 1e-10};
  model.across = Link{10e-6, 1e-8};
  model.sum_s_per_byte = 2e-11;
  model.int8 = {3e-9, 1e-9};
  model.int4 = {5e-9, 2e-9};
  return model;
}

inline zero::EngineOptions some_options(int stage) {
  zero::EngineOptions options;
  options.model.n_layer = options.model.n_head = 2;
  options.model.n_embd = 64;
  options.model.block_size = 64;
  options.model.vocab_size = 256;
  options.capacity.sequences = 1;
  options.capacity.length = 64;
  options.zero.stage = stage;
  options.micro_batches = 8;
  options.gradients.bucket_elements = 40'000;
  return options;
}

/// By stage: all turns keep their activations.
inline std::vector<zero::StepOrder> orders_of(const pipeline::Lists& lists) {
  std::vector<zero::StepOrder> orders;
  for (const auto& list : lists) {
    zero::StepOrder& order = orders.emplace_back();
    for (const auto& action : list) order.push_back({action.part, action.kind == pipeline::Action::Kind::backward, true});
  }
  return orders;
}

}  // namespace shoal::plan
