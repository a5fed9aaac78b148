// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shoal/comm/communicator.hpp"

namespace shoal::zero {

/// This rank's index in ZeRO's group, and the communicators of its groups, which are null while only memory is counted.
struct RankGroups {
  int rank = 0, ranks = 1;
  comm::Communicator* group = nullptr;
  comm::Communicator* neighbours = nullptr;  ///< with hpZ: the ZeroOptions::hpz_size ranks of its second partition
  comm::Communicator* node = nullptr;        ///< with qgZ: the ranks of this node; all nodes have the same number
  comm::Communicator* across = nullptr;      ///< with qgZ: the ranks with this local rank, one per node
};

}  // namespace shoal::zero
