// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shoal/zero/rank_groups.hpp"

namespace shoal::sync {

/// Where a rank stands: in its node, whose ranks stay in step and share gradients and states out (ZeRO's group), and among
/// the ranks of its number on all nodes. across.rank is the node's number, across.ranks the number of nodes.
struct NodeGroups {
  zero::RankGroups node, across;
  comm::Communicator* self = nullptr;  ///< this rank alone, where means are quantized
};

}  // namespace shoal::sync
