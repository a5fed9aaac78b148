// SPDX-License-Identifier: Apache-2.0
// Where the stages of a pipeline are, and what they send each other.
#pragma once

#include <cstddef>
#include <map>

#include "shoal/base/error.hpp"
#include "shoal/plan/pipeline_step.hpp"

namespace shoal::plan {

/// What all ranks of a stage send to another stage at the same time, each to the rank with the same data-parallel number.
struct Transfer {
  int from = 0, to = 0;  ///< nodes if it crosses between nodes, otherwise stages
  bool crosses = false;
  double latency_s = 0, bytes_s = 0;  ///< bytes_s: of all that goes over one link, if nothing else does
  double total_s() const { return latency_s + bytes_s; }
};

/// Stage s has the ranks s D to s D + D - 1 of the run.
class StagePlaces {
 public:
  StagePlaces(int stages, const Cluster& cluster)
      : stages_(stages), of_stage_(cluster.ranks() / stages), nodes_(cluster.nodes), on_node_(cluster.ranks_per_node) {
    require(cluster.ranks() % stages == 0, stages, " stages on ", cluster.ranks(), " ranks");
  }
  int stages() const { return stages_; }
  int nodes() const { return nodes_; }
  int data_ranks() const { return of_stage_; }
  int rank(int stage, int d) const { return stage * of_stage_ + d; }
  int node(int rank) const { return rank / on_node_; }
  int first_node(int stage) const { return node(rank(stage, 0)); }
  /// Number of stages that have ranks on the same node.
  int stages_together() const { return of_stage_ < on_node_ ? on_node_ / of_stage_ : 1; }
  bool crosses(int from, int to, int d) const { return node(rank(from, d)) != node(rank(to, d)); }

  /// bytes: of each rank. If some ranks send within their node and others to other nodes, the slower ones decide; so does
  /// the node that sends most.
  Transfer transfer(int from, int to, std::size_t bytes, const NetworkModel& network) const {
    Transfer slowest;
    std::map<int, double> of_node;
    for (int d = 0; d < of_stage_; ++d) {
      Transfer transfer{from, to};
      if (crosses(from, to, d)) {
        const double sent = of_node[node(rank(from, d))] += static_cast<double>(bytes);
        transfer = {node(rank(from, d)), node(rank(to, d)), true, network.across->latency_s,
                    sent * network.across->s_per_byte / network.ranks_per_node};
      } else {
        transfer.latency_s = network.node->latency_s;
        transfer.bytes_s = static_cast<double>(bytes) * network.node->s_per_byte;
      }
      if (d == 0 || transfer.total_s() > slowest.total_s()) slowest = transfer;
    }
    return slowest;
  }

 private:
  int stages_, of_stage_, nodes_, on_node_;
};

}  // namespace shoal::plan
