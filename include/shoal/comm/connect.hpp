// SPDX-License-Identifier: Apache-2.0
// Connects the ranks of queued groups before the first step. A library that sends arenas by itself, as NCCL does, takes
// memory of the GPU for each connection: several MiB for each pair of ranks of a group, when they exchange their first
// message. Connected here, that memory is taken before a run compares its arenas with what is free.
#pragma once

#include <optional>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

/// Ranks of a group to which this rank sends arenas by exchange(), and from which it receives.
struct Peers {
  std::vector<int> to, from;
  bool collectives = false;  ///< the group also has collectives of the library itself
};

/// Whom this rank connects to in a group. none: the group has no such operations, on any rank.
struct Connections {
  std::optional<Peers> gathers;  ///< operations on Queue::gather
  std::optional<Peers> others;
};

/// Of the tree's exchanges (tree_reduce.hpp).
Peers tree_peers(const Communicator& group);
/// Of an exchange with every other rank.
Peers all_peers(const Communicator& group);

/// Collective over the ranks of all groups; on a group that is not queued it does nothing. Prepares the group
/// (Communicator::prepare()) and exchanges a byte with each peer: once for all operations, or if gathers are apart
/// (Communicator::gathers_apart()) once for them and once for the others. What that takes of the device's memory is counted
/// as the library's (device/taken.hpp).
void connect(Communicator& group, const Connections& connections);

}  // namespace shoal::comm
