// SPDX-License-Identifier: Apache-2.0
// Makes the groups of ranks, from the options and from the nodes on which the launcher started the ranks.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "comm/nccl/nccl.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/comm/topology.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::comm {

/// The groups along the axes, in the order of axis_kinds().
enum class Along : std::uint8_t { data, tensor, pipeline, model, data_node, data_across };

struct Groups {
  /// Collective over MPI_COMM_WORLD. Also chooses how ranks wait.
  Groups(const CommOptions& options, const Axes& axes);
  ~Groups();
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;
  Communicator& consecutive(int count);
  Communicator& same_position(int count);
  Communicator& along(Along axis);

  MPI_Comm ordered = MPI_COMM_NULL;                      ///< all ranks, node by node
  MPI_Comm inquiry = MPI_COMM_NULL;                      ///< the same ranks, for the messages of the inquiry
  std::unique_ptr<NcclGroups> nccl;                      ///< null: MPI alone
  std::unique_ptr<Communicator> all, node, across;       ///< described in comm/topology.hpp
  std::vector<std::unique_ptr<Communicator>> by_axis;    ///< by Along; empty if there is one rank along both axes
  std::vector<std::unique_ptr<Communicator>> on_demand;  ///< made by consecutive() and same_position()
  std::vector<GroupKind> kinds;                          ///< of all groups that were made, by their index in the trace
  Axes axes;
  Topology topology;  ///< of the ranks of all

 private:
  void assign_nodes(const CommOptions& options);
  Communicator& divided_group(const char* name, int count, const std::function<int(int)>& part_of);
  std::unique_ptr<Communicator> make(const GroupKind& kind, std::int16_t index) const;
  void check_agreement(const CommOptions& options) const;
};

}  // namespace shoal::comm
