// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's own estimates of the memory for model states, with exactly its results: estimate_zero2_model_states_mem_needs
// (deepspeed/runtime/zero/stage_1_and_2.py) and estimate_zero3_model_states_mem_needs (stage3.py) of DeepSpeed 0.19. Per
// element they count 2 bytes of parameters, 2 + 4 of gradients, 4 of master parameters and 8 of moments. They do not count
// activations, messages and gathered parameters, except one gathered layer (4 bytes per element) in stage 3.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/model/unit.hpp"

namespace shoal::plan {

/// The sizes of a model that DeepSpeed's model_to_params() computes.
struct DeepSpeedModel {
  std::size_t total_params = 0;          ///< tied tensors count once
  std::size_t largest_layer_params = 0;  ///< elements of the largest module (a weight and its bias)
};
/// Tensors whose names agree up to the last dot belong to one module.
DeepSpeedModel deepspeed_model(const std::vector<model::UnitLayout>& units);

struct DeepSpeedCluster {
  int gpus_per_node = 1, nodes = 1;
  double buffer_factor = 1.5;  ///< factor on host memory, for buffers
};

struct DeepSpeedEstimate {
  std::size_t cpu_bytes;  ///< per node
  std::size_t gpu_bytes;  ///< per rank
};

DeepSpeedEstimate deepspeed_zero2(const DeepSpeedModel& model, const DeepSpeedCluster& cluster, bool offload_optimizer);

struct DeepSpeedZero3 {
  bool offload_optimizer = false;
  bool offload_param = false;  ///< has an effect only with offload_optimizer
  bool zero_init = true;       ///< parameters are created as shards
};
DeepSpeedEstimate deepspeed_zero3(const DeepSpeedModel& model, const DeepSpeedCluster& cluster,
                                  const DeepSpeedZero3& options);

}  // namespace shoal::plan
