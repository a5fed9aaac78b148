// SPDX-License-Identifier: Apache-2.0
// Measures collectives by message size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/bench/bench_collectives.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::app {

struct CommBenchOptions {
  std::size_t min_bytes = 256, max_bytes = std::size_t{16} << 20U, factor = 4;
  std::size_t repetitions = 20, warm_up = 1;  ///< at most this many; see row_seconds
  double row_seconds = 0.3;                   ///< after this time a row ends, but not before three repetitions
  std::vector<std::string> collectives;       ///< "all_gather", "all_gather:tree"; empty: all
  std::vector<std::string> groups;            ///< empty: node and across, and all if it differs from both
};

/// One collective in one kind of groups, at one size. Times are those of one operation (ping-pong: one way) on the slowest
/// rank of a repetition, while all groups of the kind work at the same time.
struct CommRow {
  std::string collective, how, group;
  int ranks = 1;          ///< of the largest group of the kind
  std::size_t bytes = 0;  ///< of all blocks together
  std::size_t repetitions = 0, operations_each = 1;
  double min_s = 0, median_s = 0, max_s = 0;
  double algorithm_bandwidth = 0, bus_bandwidth = 0;  ///< bytes/s, by the median
  std::uint64_t wrong = 0;                            ///< elements, over all ranks
  comm::Traffic sent;                                 ///< in one operation, by all ranks together
  std::uint64_t operations = 0;                       ///< including those before the measurement
};

/// Collective over all ranks. Calls `done` on all of them with each row as soon as it is measured.
std::vector<CommRow> bench_comm(comm::World& world, const CommBenchOptions& options,
                                const std::function<void(const CommRow&)>& done);

}  // namespace shoal::app
