// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shoal/base/types.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal::zero {

/// This rank's index in ZeRO's group, and the communicators of its groups, which are null while only memory is counted. In a
/// pipeline ZeRO's group is that of one stage: the ranks with the same units.
struct RankGroups {
  int rank = 0, ranks = 1;
  comm::Communicator* group = nullptr;
  comm::Communicator* neighbours = nullptr;  ///< with hpZ: the ZeroOptions::hpz_size ranks of its second partition
  comm::Communicator* node = nullptr;        ///< with qgZ: the ranks of this node; all nodes have the same number
  comm::Communicator* across = nullptr;      ///< with qgZ: the ranks with this local rank, one per node
  /// In a pipeline: the ranks that hold one copy of the model together, one of each ZeRO group. Each unit is present on one
  /// of them (ShardLayout). Null: this rank's group has all units.
  comm::Communicator* model = nullptr;
};

/// Collective over groups.model. Each number is known to one of its ranks and is zero on the others: all get it. The sum of
/// one number and zeros is exact in any order.
void share_over_model(const RankGroups& groups, Span<double> numbers);

}  // namespace shoal::zero
