// SPDX-License-Identifier: Apache-2.0
// Measures collectives by message size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench_collectives.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/plan/step_time.hpp"

namespace shoal::app {

struct CommBenchOptions {
  std::size_t min_bytes = 256, max_bytes = std::size_t{16} << 20U, factor = 4;
  std::size_t repetitions = 20, warm_up = 1;  ///< the most; see row_seconds
  double row_seconds = 0.3;                   ///< repetitions end when a row has taken so long, but not before the third
  std::vector<std::string> collectives;       ///< "all_gather", "all_gather:tree"; empty: all
  std::vector<std::string> groups;            ///< empty: node and across, and all where it is neither
};

/// One collective in one kind of groups, at one size. Times are of one operation (of one way, of a ping-pong): the slowest
/// rank's in each repetition; all groups of the kind work at once.
struct CommRow {
  std::string collective, how, group;
  int ranks = 1;          ///< of the largest group of the kind
  std::size_t bytes = 0;  ///< of all blocks together
  std::size_t repetitions = 0, operations_each = 1;
  double min_s = 0, median_s = 0, max_s = 0;
  double algorithm_bandwidth = 0, bus_bandwidth = 0;  ///< bytes/s, by the median
  std::uint64_t wrong = 0;                            ///< elements, over all ranks
  comm::Traffic sent;                                 ///< of one operation, by all ranks together
  std::uint64_t operations = 0;                       ///< also those before the measurement
};

/// Collective over all ranks; `done` is called on all with every row as soon as it is there.
std::vector<CommRow> bench_comm(comm::World& world, const CommBenchOptions& options,
                                const std::function<void(const CommRow&)>& done);

/// What the rows and this machine's arithmetic say to `shoal plan`.
struct MachineModel {
  plan::NetworkModel network;
  double node_deviation = 0, across_deviation = 0;  ///< the worst of the fits
  std::map<std::string, double> gflops;  ///< the most that the cores can do, by train.dtype, of a rank while all work
  std::map<std::string, plan::TrainingRates> training;  ///< by train.dtype
};
/// Links: of the tree's all-gathers; without one there is no model. Measures arithmetic on all ranks at once: collective.
std::optional<MachineModel> machine_model(comm::World& world, const std::vector<CommRow>& rows);

}  // namespace shoal::app
