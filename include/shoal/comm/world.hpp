// SPDX-License-Identifier: Apache-2.0
// MPI from start to end, and the groups of ranks: all made here, collectively, in one order, and checked by exchanging a
// hash.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/comm/options.hpp"
#include "shoal/comm/topology.hpp"

namespace shoal::comm {

/// Why comm.ranks_per_node does not suit so many ranks; empty if it does.
std::string ranks_per_node_problem(const CommOptions& options, int ranks);

/// Starts MPI (thread level: serialized, see base/absence.hpp); ended by the destructor. One per process.
class World {
 public:
  World(int& argc, char**& argv);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// The rank's number in all(); before make_groups() the launcher's. Rank 0 is the same in both.
  int rank() const;
  int size() const;

  /// Refuses a world of another size than the job's number of tasks (SLURM_NTASKS), as when the launcher and MPI do not find
  /// each other and every task believes it is alone.
  void check_launcher() const;

  /// Makes the groups below (comm/topology.hpp), by all ranks when the options are known; called again, the earlier ones
  /// end. Each is traced (comm/traced.hpp); their indices there are 0, 1, 2 in this order.
  void make_groups(const CommOptions& options);
  Communicator& all();     ///< data-parallel ranks, numbered node by node whatever the launcher's placement
  Communicator& node();    ///< those of this node
  Communicator& across();  ///< those that have this rank's number on their node: for number 0, the nodes' leaders
  /// The `count` ranks of all() from the last multiple of it on, and those that have this rank's number among their
  /// neighbours. count divides all(). Collective, as they are made when first asked for.
  Communicator& consecutive(int count);
  Communicator& same_position(int count);
  const std::vector<GroupKind>& group_kinds() const;  ///< of those made so far, by their index in the trace
  const Topology& topology() const;                   ///< of the ranks of all()
  int nodes() const;

  /// One exit code for all ranks: call at the end, with each rank's own. An error goes before requeue, requeue before done;
  /// of two errors the larger code. A rank that ends with an error expects the others within 5 s, or ends them.
  int agree(int exit_code);

  /// The end of a run that failed; returns the exit code of all ranks, if it returns.
  /// Seen::everywhere: the ranks meet; rank 0 prints "shoal: message", others only what differs from it. If they do not meet
  /// within 3 s the error is this rank's alone.
  /// Seen::here: prints "shoal: rank R: message" and ends all ranks at once.
  int end_with_error(Exit code, Seen seen, const std::string& message);

  /// For HDF5, which wants the MPI communicator itself: an MPI_Comm* behind a void*, of the ranks of all().
  const void* mpi_communicator() const;
  /// The same for the watchdog, whose questions must not be mistaken for anything else. Freed with the world, where all
  /// ranks meet: a watchdog may end by one rank's error alone.
  const void* inquiry_communicator() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Ends all ranks at once with this code, without waiting for any of them (MPI_Abort).
[[noreturn]] void abort_all(int exit_code);

/// ("MPI", "MPICH 4.0.2 ...").
std::pair<std::string, std::string> library_version();

}  // namespace shoal::comm
