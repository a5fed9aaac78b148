// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shoal/zero/rank_groups.hpp"

namespace shoal::sync {

/// This rank's groups. node: the ranks that reduce gradients at every step, among which ZeRO shards the states. across: the
/// ranks with this rank's number in the node, one of each node; across.rank is the node's number, across.ranks the number of
/// nodes.
struct NodeGroups {
  zero::RankGroups node, across;
  comm::Communicator* self = nullptr;  ///< this rank alone; set if means are quantized
};

}  // namespace shoal::sync
