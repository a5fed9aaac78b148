// SPDX-License-Identifier: Apache-2.0
// NCCL's communicators: how they are made and ended, and errors of its calls.
#pragma once

#include <mpi.h>
#include <nccl.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace shoal::comm {

/// A group's communicator, or what it will be made from.
struct NcclGroup {
  std::string name;
  int part = 0;            ///< groups of one kind are the parts into which a split divides all ranks
  bool alone = false;      ///< this rank is the group: it calls NCCL for a split only
  bool all_alone = false;  ///< so is every rank
  ncclComm_t communicator = nullptr;
  bool made = false;
};

class NcclHandles {
 public:
  /// Collective over `ranks`, which is duplicated.
  NcclHandles(const MPI_Comm& ranks, double timeout_s);
  /// Communicators whose operations are complete are ended in an orderly way.
  ~NcclHandles();
  NcclHandles(const NcclHandles&) = delete;
  NcclHandles& operator=(const NcclHandles&) = delete;

  /// Adds a group of the ranks with the same number in `part_of`, by rank. It stays in place.
  NcclGroup& add(std::string name, const std::vector<int>& part_of);
  /// Collective over all ranks at the first call, and at the first one after an add(). Makes the communicators of all
  /// groups.
  ncclComm_t of(const NcclGroup& group);

  /// Fails unless `result` is a success, which it may also become within the limit of time. what: "all_gather #17 of all".
  void settle(ncclResult_t result, ncclComm_t communicator, const std::string& what);
  /// Fails if a communicator has met an error. unfinished(): the first operation that is not complete, for the message.
  void check_errors(const std::function<std::string()>& unfinished);
  /// Ends all communicators at once, with what the device does for them, and fails.
  [[noreturn]] void give_up(const std::string& message);
  /// At the end, communicators are ended at once: some operations may not be complete.
  void has_unfinished() { abort_at_end_ = true; }

 private:
  void make(NcclGroup& group);
  ncclUniqueId shared_id();
  bool settled(ncclComm_t communicator, const std::string& what);

  MPI_Comm ranks_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  double timeout_;
  bool abort_at_end_ = false;
  std::deque<NcclGroup> groups_;  // a deque does not move them
};

}  // namespace shoal::comm
