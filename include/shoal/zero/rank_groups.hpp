// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shoal/comm/communicator.hpp"

namespace shoal::zero {

/// Which rank of how many this is, and how they communicate (null while only memory is counted).
struct RankGroups {
  int rank = 0, ranks = 1;
  comm::Communicator* group = nullptr;
  comm::Communicator* neighbours = nullptr;  ///< ZeroOptions::hpz_size ranks, this one among them; where that is not 0
  comm::Communicator* node = nullptr;        ///< with qgZ: the ranks of this node (nodes have as many),
  comm::Communicator* across = nullptr;      ///< and those of this rank's number on all nodes
};

}  // namespace shoal::zero
