// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's own estimate of the memory for model states, number by number: estimate_zero2_model_states_mem_needs
// (deepspeed/runtime/zero/stage_1_and_2.py) and estimate_zero3_model_states_mem_needs (stage3.py) of DeepSpeed 0.19. They
// count 2 bytes of parameters, 2 + 4 of gradients, 4 of master parameters and 8 of moments an element; activations, messages
// and gathered parameters are not in them, but for one layer (4 bytes an element) in stage 3.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/model/unit.hpp"

namespace shoal::plan {

/// Of a model: what DeepSpeed's model_to_params() finds.
struct DeepSpeedModel {
  std::size_t total_params = 0;          ///< tied tensors count once
  std::size_t largest_layer_params = 0;  ///< most elements held by one module: a weight and its bias
};
/// A module is what stands before the last dot of a tensor's name.
DeepSpeedModel deepspeed_model(const std::vector<model::UnitLayout>& units);

struct DeepSpeedCluster {
  int gpus_per_node = 1, nodes = 1;
  double buffer_factor = 1.5;  ///< of host memory
};

struct DeepSpeedEstimate {
  std::size_t cpu_bytes;  ///< per node
  std::size_t gpu_bytes;  ///< per rank
};

DeepSpeedEstimate deepspeed_zero2(const DeepSpeedModel& model, const DeepSpeedCluster& cluster, bool offload_optimizer);

struct DeepSpeedZero3 {
  bool offload_optimizer = false;
  bool offload_param = false;  ///< counts only with offload_optimizer
  bool zero_init = true;       ///< parameters are made in shards
};
DeepSpeedEstimate deepspeed_zero3(const DeepSpeedModel& model, const DeepSpeedCluster& cluster,
                                  const DeepSpeedZero3& options);

}  // namespace shoal::plan
