// SPDX-License-Identifier: Apache-2.0
// Products are computed in double, in DeepSpeed's order of factors, and truncated to whole bytes as Python's int() does.
#include "shoal/plan/deepspeed_estimate.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace shoal::plan {

namespace {

std::size_t truncated(double bytes) { return static_cast<std::size_t>(bytes); }

/// int(multiplier * parameters / gpus)
std::size_t per_gpu(std::size_t multiplier, std::size_t params, const DeepSpeedCluster& cluster) {
  return truncated(static_cast<double>(multiplier * params) / (static_cast<double>(cluster.nodes) * cluster.gpus_per_node));
}

}  // namespace

DeepSpeedModel deepspeed_model(const std::vector<model::UnitLayout>& units) {
  DeepSpeedModel result;
  std::map<std::string, std::size_t> modules;
  for (const model::UnitLayout& unit : units) {
    result.total_params += unit.parameter_count();
    for (const model::Parameter& p : unit.parameters) {
      std::size_t& elements = modules[p.name.substr(0, p.name.rfind('.'))];
      elements += p.elements();
      result.largest_layer_params = std::max(result.largest_layer_params, elements);
    }
  }
  return result;
}

DeepSpeedEstimate deepspeed_zero2(const DeepSpeedModel& model, const DeepSpeedCluster& cluster, bool offload_optimizer) {
  const auto total = static_cast<double>(model.total_params);
  const double gpus = cluster.gpus_per_node;
  if (offload_optimizer) {
    return {truncated(total * std::max(4.0 * cluster.nodes * gpus, 16.0) * cluster.buffer_factor), 2 * model.total_params};
  }
  return {truncated(total * 4 * gpus * cluster.buffer_factor),
          2 * model.total_params + per_gpu(18, model.total_params, cluster)};
}

DeepSpeedEstimate deepspeed_zero3(const DeepSpeedModel& model, const DeepSpeedCluster& cluster,
                                  const DeepSpeedZero3& options) {
  const auto total = static_cast<double>(model.total_params), layer = static_cast<double>(model.largest_layer_params);
  const double gpus = cluster.gpus_per_node, part = 1.0 / cluster.nodes, factor = cluster.buffer_factor;
  const std::size_t largest = 4 * model.largest_layer_params;
  if (!options.offload_optimizer) {
    return {truncated((options.zero_init ? layer : total) * 4 * gpus * factor),
            largest + per_gpu(18, model.total_params, cluster)};
  }
  const double bytes_each = options.offload_param ? 18 : 16;
  const double cpu =
      options.zero_init ? total * bytes_each * part * factor : total * std::max(4 * gpus, bytes_each * part) * factor;
  return {truncated(cpu), options.offload_param ? largest : largest + per_gpu(2, model.total_params, cluster)};
}

}  // namespace shoal::plan
