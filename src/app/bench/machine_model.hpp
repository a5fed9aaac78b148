// SPDX-License-Identifier: Apache-2.0
// The machine as `shoal plan` knows it: what `shoal bench comm` measured.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/bench/bench_comm.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/plan/step_time.hpp"

namespace shoal::app {

/// The model of this machine for `shoal plan`.
struct MachineModel {
  plan::NetworkModel network;
  double node_deviation = 0, across_deviation = 0;  ///< largest relative deviation of the fit
  bool on_gpus = false;
  std::map<std::string, double> gflops;                 ///< peak of the cores by train.dtype, per rank while all work
  std::map<std::string, plan::TrainingRates> training;  ///< by train.dtype
};
/// Fits the links to the rows of the tree's all-gathers; without such a link there is no model. Measures arithmetic on all
/// ranks at the same time. Collective.
std::optional<MachineModel> machine_model(comm::World& world, const std::vector<CommRow>& rows);

}  // namespace shoal::app
