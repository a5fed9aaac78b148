// SPDX-License-Identifier: Apache-2.0
// NCCL's communicators: how they are made and ended, and errors of its calls.
#pragma once

#include <mpi.h>
#include <nccl.h>

#include <array>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace shoal::comm {

/// What a communicator is a part of. NCCL carries out one call after another of the parts of one communicator that share its
/// buffers, on whatever queues, since they also share a stream of the device. gathers: of operations on Queue::gather, if
/// these are apart.
enum class Origin : std::uint8_t { calls, gathers };
inline constexpr std::size_t origins = 2;

/// A communicator of groups with the same ranks, or what it will be made from.
struct NcclGroup {
  Origin origin = Origin::calls;
  std::string name;        ///< of the first of them, and whether it gathers alone
  std::vector<int> parts;  ///< of each rank, its group's number; groups are numbered by their first rank
  int part = 0;            ///< of this rank
  bool alone = false;      ///< this rank is the group: it calls NCCL for a split only
  bool all_alone = false;  ///< so is every rank
  ncclComm_t communicator = nullptr;
  bool made = false;
};

class NcclHandles {
 public:
  /// Collective over `ranks`, which is duplicated. unfinished(): the groups whose operations are not complete, first the one
  /// of the oldest operation.
  NcclHandles(const MPI_Comm& ranks, double timeout_s, std::function<std::vector<const NcclGroup*>()> unfinished);
  /// Communicators whose operations are complete are ended in an orderly way.
  ~NcclHandles();
  NcclHandles(const NcclHandles&) = delete;
  NcclHandles& operator=(const NcclHandles&) = delete;

  /// Adds a group of the ranks with the same number in `part_of`, by rank. It stays in place. If the groups that another
  /// call has added have the same origin and the same ranks, these are the same.
  NcclGroup& add(Origin origin, std::string name, const std::vector<int>& part_of);
  /// Collective over all ranks. Makes the communicators of these groups, if there are none yet.
  void prepare(NcclGroup& group);
  /// The group's communicator. If it was not prepared, this is collective over all ranks and makes those of all groups.
  ncclComm_t of(const NcclGroup& group);

  /// Fails unless `result` is a success, which it may also become within the limit of time. what: "all_gather #17 of all".
  void settle(ncclResult_t result, ncclComm_t communicator, const std::string& what);
  /// Fails if a communicator has met an error. unfinished(): the first operation that is not complete, for the message.
  void check_errors(const std::function<std::string()>& unfinished);
  /// Prints the message, ends all communicators at once, with what the device does for them, and fails.
  [[noreturn]] void give_up(const std::string& message);
  /// At the end, communicators are ended at once: some operations may not be complete.
  void has_unfinished() { abort_at_end_ = true; }

 private:
  static ncclConfig_t configuration(bool blocking);
  ncclComm_t made_origin(Origin which);
  void make(NcclGroup& group);
  ncclUniqueId shared_id();
  bool settled(ncclComm_t communicator, const std::string& what);

  MPI_Comm ranks_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  double timeout_;
  std::function<std::vector<const NcclGroup*>()> unfinished_;
  bool abort_at_end_ = false;
  std::array<ncclComm_t, origins> origins_{};
  std::deque<NcclGroup> groups_;  // a deque does not move them
};

}  // namespace shoal::comm
