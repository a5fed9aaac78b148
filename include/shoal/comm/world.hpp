// SPDX-License-Identifier: Apache-2.0
// Starts and ends MPI, and makes the groups of ranks. All groups are made here, collectively and in the same order; an
// exchanged hash shows that all ranks have the same options.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/comm/axes.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/comm/options.hpp"
#include "shoal/comm/topology.hpp"

namespace shoal::comm {

/// Returns why comm.ranks_per_node is not possible with this number of ranks; empty if it is.
std::string ranks_per_node_problem(const CommOptions& options, int ranks);

/// Returns why comm.backend is not possible in this program; empty if it is.
std::string backend_problem(const CommOptions& options);

/// Starts MPI (with thread level `serialized`, see base/mpi_free.hpp). The destructor ends it. One object per process.
class World {
 public:
  World(int& argc, char**& argv);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// The rank in all(); before make_groups() the rank given by the launcher. Rank 0 is the same process in both.
  int rank() const;
  int size() const;

  /// Collective. Makes the groups below (comm/topology.hpp); if called again, it replaces them. All are traced
  /// (comm/traced.hpp), with the indices 0, 1, 2 in this order. bad_input() if the axes do not divide the ranks.
  void make_groups(const CommOptions& options, const Axes& axes = {});
  Communicator& all();     ///< all ranks, numbered node by node however the launcher placed them
  Communicator& node();    ///< the ranks of this node
  Communicator& across();  ///< the ranks with this rank's local rank, one per node: for local rank 0, the node leaders
  /// consecutive(count): the group of `count` consecutive ranks of all() that contains this rank (the same rank / count).
  /// same_position(count): the ranks at the same position in such groups (the same rank % count). count must divide
  /// all().size(). Collective: a group is made when it is first asked for.
  Communicator& consecutive(int count);
  Communicator& same_position(int count);
  /// The groups along the axes (comm/axes.hpp); their indices in the trace follow. With one rank along both axes no further
  /// group is made: data() is all(), data_node() is node(), data_across() is across(), and the others are this rank alone.
  Communicator& data();
  Communicator& tensor();
  Communicator& pipeline();
  Communicator& model();
  Communicator& data_node();
  Communicator& data_across();
  const Axes& axes() const;
  Axes::Position position() const;                    ///< of this rank
  Topology data_topology() const;                     ///< of the ranks of data()
  const std::vector<GroupKind>& group_kinds() const;  ///< of all groups made so far, by their index in the trace
  const Topology& topology() const;                   ///< of the ranks of all()
  int nodes() const;

  /// Collective, at the end of a run. Returns one exit code for all ranks, given each rank's own. Errors take precedence
  /// over `requeue`, and that over `done`; of several error codes the largest. A rank with an error code waits for the
  /// others for 5 s, then ends them.
  int agree(int exit_code);

  /// Ends a run that failed. If it returns, it returns the exit code of all ranks.
  /// Seen::everywhere: all ranks are expected to call it. Rank 0 prints "shoal: message"; other ranks print only a message
  /// that differs from rank 0's. If not all ranks call it within 3 s, the error is treated as seen here. Seen::here: prints
  /// "shoal: rank R: message", and ends all ranks at once.
  int end_with_error(Exit code, Seen seen, const std::string& message);

  /// For MPI-IO, which needs the MPI communicator itself: an MPI_Comm*, as void*, of the ranks of all().
  const void* mpi_communicator() const;
  /// A communicator of the same ranks for the watchdog, so that its messages cannot match others. It is freed with the
  /// groups, when all ranks are at the end: a watchdog may end on one rank alone, because of an error there.
  const void* inquiry_communicator() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Name and version of the MPI library: ("MPI", "MPICH 4.0.2 ...").
std::pair<std::string, std::string> library_version();
/// The same of NCCL, or of what stands for it in tests; an empty version if the program has none.
std::pair<std::string, std::string> device_library_version();

}  // namespace shoal::comm
