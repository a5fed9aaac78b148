// SPDX-License-Identifier: Apache-2.0
// How ranks are divided among the ways of working in parallel. Does not use MPI.
#pragma once

#include <string>
#include <vector>

#include "shoal/comm/topology.hpp"

namespace shoal::comm {

/// The ranks form a grid of three axes. Ranks that differ only in `tensor` compute slices of the same layers; ranks that
/// differ only in `data` compute other micro-batches with the same parameters; ranks that differ only in `pipeline` compute
/// other layers of the same micro-batches. With D data-parallel ranks and T tensor ranks,
///
///   rank = (pipeline D + data) T + tensor
///
/// so the ranks that communicate most are neighbours on a node, and the stages of a pipeline are the farthest apart.
struct Axes {
  int tensor = 1, pipeline = 1;  ///< number of ranks along these axes

  /// A rank's position on each axis.
  struct Position {
    int tensor = 0, data = 0, pipeline = 0;
    bool operator==(const Position&) const = default;
  };

  /// Number of ranks that together hold one copy of the model.
  int model() const { return tensor * pipeline; }
  /// Number of data-parallel ranks among `ranks`. model() must divide them.
  int data(int ranks) const { return ranks / model(); }
  Position position(int rank, int ranks) const;
  int rank(const Position& position, int ranks) const;
  bool operator==(const Axes&) const = default;
};

/// The groups along the axes, in this order:
///   data         the ranks that reduce gradients with each other
///   tensor       the ranks that compute slices of the same layers
///   pipeline     the stages of one pipeline, in their order
///   model        the ranks that hold one copy of the model: tensor x pipeline
///   data/node    the ranks of a group `data` that are on one node
///   data/across  of a group `data`, the ranks with the same index in data/node, one per node; as `across` if nodes have
///                different numbers of ranks
/// axes.model() must divide the number of ranks.
std::vector<GroupKind> axis_kinds(const Topology& topology, const Axes& axes);

/// The topology of the members of a group alone: their hosts, and their nodes numbered from 0. members: ranks, ascending.
Topology topology_of(const Topology& topology, const std::vector<int>& members);

}  // namespace shoal::comm
