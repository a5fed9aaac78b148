// SPDX-License-Identifier: Apache-2.0
// Groups whose operations on arenas are carried out by NCCL. A program is linked with one implementation: with NCCL
// (nccl_*.cpp), or without it (nccl_none.cpp). This header does not need nccl.h.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/comm/options.hpp"

namespace shoal::comm {

/// True if this program is linked with NCCL.
bool has_nccl();
/// Of the library that was loaded: "2.28.9"; empty if the program is not linked with NCCL.
std::string nccl_version();

/// All groups of this rank that NCCL serves, which all ranks make in the same order.
///
/// [Note: when NCCL starts] Its communicators take time and memory of the device, and many commands never use them. A run
/// makes those of the groups that it will use, and connects their ranks (comm/connect.hpp), before it compares its arenas
/// with the memory that is free. Otherwise they are made when the first operation on an arena is started, in a group that
/// has none: then for all groups that there are, in their order. Ranks that are alone in their group call NCCL only if other
/// groups of that kind have several ranks, since a split is an operation of all ranks. So that first operation must not be
/// an exchange() in which some rank has no messages. Groups with the same ranks have one communicator, or if gathers are
/// apart (comm.gather_group) one for these and one for all else.
///
/// [Note: one order of calls] NCCL's kernels wait on the device for those of other ranks, and a device may have room for one
/// at a time. So all ranks must make their calls in one order, over all communicators and queues. Here this is the order of
/// the program: an operation makes all its calls when it is started (Operation::whole_at_start()), never as time allows, and
/// what is started, all ranks start; parts that have no bytes on some rank leave a gap in the order, but do not change it.
/// That includes prefetched units, which are on another queue than sums, and means and parameters of neighbours that are
/// still in flight when the next step starts its sums: on the queue of sums these come after them, on all ranks. Messages of
/// two ranks alone, as between the stages of a pipeline, must have an order over all of them too (pipeline/program.hpp). The
/// device may still carry out calls of two communicators, made on two queues, in another order than they were made in, which
/// can differ from rank to rank. NCCL 2.26 and newer keep the order if NCCL_LAUNCH_ORDER_IMPLICIT=1, which the program sets
/// unless the environment has the variable; with older versions each call waits, by an event, for the last one of another
/// group. The double checks the order if SHOAL_NCCL_DOUBLE has
/// the word `serial`.
class NcclGroups {
 public:
  virtual ~NcclGroups() = default;
  /// The group of the ranks with this rank's number in `part_of`, which has a number for each rank of all groups' ranks.
  /// control: the same group by MPI. It keeps the operations on memory of the host, and barriers. ranks_per_node:
  /// Communicator::queued_ranks_per_node(). This object must outlive the group.
  virtual std::unique_ptr<Communicator> over(std::unique_ptr<Communicator> control, const std::vector<int>& part_of,
                                             int ranks_per_node) = 0;
};

/// Collective over `ranks`, which is duplicated. Fails if the NCCL that was loaded is older than the one that the program
/// was compiled for, or if there is none. Of the options, `timeout` is the limit in seconds for making a communicator, and
/// for an operation if no watchdog runs. With collectives = native the groups use collectives of NCCL itself: then each
/// communicator connects its ranks for all algorithms when it is made, and not when it first chooses one, unless the
/// environment has NCCL_RUNTIME_CONNECT. With gather_group each group that gathers has a communicator of its own for that.
std::unique_ptr<NcclGroups> make_nccl_groups(const MPI_Comm& ranks, const CommOptions& options);

}  // namespace shoal::comm
