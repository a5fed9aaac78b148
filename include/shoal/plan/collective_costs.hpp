// SPDX-License-Identifier: Apache-2.0
// Cost of one collective of a run: the bytes that every rank sends, which are exact, and seconds by the network model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/comm/quantized.hpp"
#include "shoal/plan/network.hpp"

namespace shoal::plan {

/// One exchange of an operation, as a rank makes it. Partners are ranks of the run.
struct OperationStep {
  double before_s = 0;  ///< computation on what is sent
  comm::PlannedExchange exchange;
  double after_s = 0;  ///< computation on what has arrived
};
/// What a rank of the run does in an operation.
using StepsOfRank = std::function<std::vector<OperationStep>(int rank)>;

/// NCCL carries out the calls of communicators that share buffers one after another, whatever their queues. So no exchange
/// of an operation goes on beside those of another one of the same sequence. gathers: with comm.gather_group. none: all may.
enum class Sequence : std::uint8_t { none, calls, gathers };
inline constexpr std::size_t sequences = 2;
/// From 0. Not of `none`.
constexpr std::size_t index_of(Sequence sequence) { return static_cast<std::size_t>(sequence) - 1; }

/// Cost of an operation that all ranks make at the same time, each in its group. Computation and two exchanges follow each
/// other: before, within nodes, between, across nodes, after. If node_first is false, the exchange across nodes comes first.
struct Cost {
  double before_s = 0;   ///< computation on a rank before anything is sent
  double node_s = 0;     ///< exchange within nodes, of which node_latency_s would pass without bytes, too
  double between_s = 0;  ///< computation that needs the result of the first exchange
  double across_s = 0;   ///< exchange across nodes, of which across_latency_s would pass without bytes, too
  double after_s = 0;    ///< computation on what has arrived
  double node_latency_s = 0, across_latency_s = 0;
  bool node_first = true;
  Sequence sequence = Sequence::none;
  std::vector<comm::Traffic> sent;  ///< by rank of the run
  StepsOfRank steps_of;             ///< empty: on queued groups, whose exchanges are others (comm/queued_exchanges.hpp)
  bool control = false;             ///< a few numbers: not counted in `sent`
  double total_s() const { return before_s + node_s + between_s + across_s + after_s; }
};

/// The groups of an operation, as lists of ranks of the run. All groups have the same size.
struct Grouping {
  std::vector<std::vector<int>> groups;
  /// consecutive(): groups of `count` consecutive ranks. same_position(): the ranks at the same position within those
  /// groups. count must divide ranks.
  static Grouping consecutive(int ranks, int count);
  static Grouping same_position(int ranks, int count);
};

/// Number of elements of each span, for each block of a group (comm/tree_reduce.hpp).
using BlockSpans = std::vector<std::vector<std::size_t>>;

class CollectiveCosts {
 public:
  /// network and cluster must outlive this object.
  CollectiveCosts(const NetworkModel& network, const Cluster& cluster) : network_(&network), cluster_(&cluster) {}

  /// block_bytes: bytes of the block of each rank of a group; one entry per group, or a single entry for all groups.
  Cost reduce_scatter(const Grouping& grouping, const std::vector<std::vector<std::size_t>>& block_bytes) const;
  Cost all_gather(const Grouping& grouping, const std::vector<std::vector<std::size_t>>& block_bytes) const;
  /// blocks: one entry per group, or a single entry for all groups. ranks_per_node consecutive ranks of a group are a node.
  Cost quantized_all_gather(const Grouping& grouping, const std::vector<BlockSpans>& blocks,
                            const kernels::QuantFormat& format) const;
  Cost quantized_reduce_scatter(const Grouping& grouping, const std::vector<BlockSpans>& blocks, int ranks_per_node,
                                const comm::ReduceFormats& formats) const;
  /// Each rank r of the run sends bytes[r] to rank (r + distance) modulo the number of ranks.
  Cost shift(int distance, const std::vector<std::size_t>& bytes) const;
  /// An exchange of a few numbers among the ranks of each group, which costs latency only.
  Cost small(const Grouping& grouping) const;

 private:
  Cost tree(const Grouping& grouping, comm::TreeDirection direction,
            const std::vector<std::vector<std::size_t>>& block_bytes) const;
  StepsOfRank tree_steps(const Grouping& grouping, comm::TreeDirection direction,
                         const std::vector<std::vector<std::size_t>>& block_bytes) const;
  void add_seconds(Cost& cost, int exchanges_in_node, int exchanges_across) const;
  void add_exchanges(Cost& cost, const Grouping& grouping, bool queued) const;
  int node_of(int rank) const { return rank / cluster_->ranks_per_node; }

  const NetworkModel* network_;
  const Cluster* cluster_;
};

}  // namespace shoal::plan
