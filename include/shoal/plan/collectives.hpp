// SPDX-License-Identifier: Apache-2.0
// What one collective of a run costs: bytes that every rank sends, exactly, and seconds by the network's model.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/comm/quantized.hpp"
#include "shoal/plan/network.hpp"

namespace shoal::plan {

/// An operation that all ranks make at once, in groups. A rank works on numbers, its node's ranks exchange what stays in the
/// node, nodes exchange the rest: in this order where node_first, otherwise across nodes before the node.
struct Cost {
  double before_s = 0;   ///< a rank's own work, before anything is sent
  double node_s = 0;     ///< within nodes
  double between_s = 0;  ///< work that waits for the first of the two exchanges
  double across_s = 0;   ///< across nodes
  double after_s = 0;    ///< work on what has arrived
  bool node_first = true;
  std::vector<comm::Traffic> sent;  ///< by rank of the run
  double total_s() const { return before_s + node_s + between_s + across_s + after_s; }
};

/// The groups of an operation: each of `groups` has as many ranks of the run.
struct Grouping {
  std::vector<std::vector<int>> groups;
  /// Whole runs of `count` neighbours; ranks of one number in them. count divides ranks.
  static Grouping consecutive(int ranks, int count);
  static Grouping same_position(int ranks, int count);
};

/// Elements of the spans of each of a group's blocks (comm/tree_reduce.hpp).
using BlockSpans = std::vector<std::vector<std::size_t>>;

class Collectives {
 public:
  /// Both must outlive this.
  Collectives(const NetworkModel& network, const Cluster& cluster) : network_(&network), cluster_(&cluster) {}

  /// block_bytes: by group, or one entry for all groups; bytes of each member's block.
  Cost reduce_scatter(const Grouping& grouping, const std::vector<std::vector<std::size_t>>& block_bytes) const;
  Cost all_gather(const Grouping& grouping, const std::vector<std::vector<std::size_t>>& block_bytes) const;
  /// blocks: by group, or one entry for all groups. Nodes of ranks_per_node neighbours in the group.
  Cost quantized_all_gather(const Grouping& grouping, const std::vector<BlockSpans>& blocks,
                            const kernels::QuantFormat& format) const;
  Cost quantized_reduce_scatter(const Grouping& grouping, const std::vector<BlockSpans>& blocks, int ranks_per_node,
                                const comm::ReduceFormats& formats) const;
  /// Rank r sends bytes[r] to rank (r + distance) modulo the ranks of the run, and receives as many.
  Cost shift(int distance, const std::vector<std::size_t>& bytes) const;
  /// Some numbers between the ranks of each group: latency alone.
  Cost small(const Grouping& grouping) const;

 private:
  Cost tree(const Grouping& grouping, bool reducing, const std::vector<std::vector<std::size_t>>& block_bytes) const;
  void add_seconds(Cost& cost, int exchanges_in_node, int exchanges_across) const;
  void add_exchanges(Cost& cost, const Grouping& grouping) const;
  int node_of(int rank) const { return rank / cluster_->ranks_per_node; }

  const NetworkModel* network_;
  const Cluster* cluster_;
};

}  // namespace shoal::plan
