// SPDX-License-Identifier: Apache-2.0
// How many exchanges the reproducible tree (comm/tree_reduce.hpp) takes on a queued group.
#pragma once

namespace shoal::comm {

/// Number of exchanges that follow each other: one within each part of a node, and one across the parts. ranks_per_node:
/// Communicator::queued_ranks_per_node().
int queued_tree_exchanges(int group_size, int ranks_per_node);

}  // namespace shoal::comm
