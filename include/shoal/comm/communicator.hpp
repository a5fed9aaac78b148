// SPDX-License-Identifier: Apache-2.0
// A group of ranks that communicate with each other. The interface is small on purpose: the reproducible tree, the
// hierarchical and the quantized collectives are built on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/device/queue.hpp"

namespace shoal::comm {

/// A communication operation in flight. comm::progress() advances it; every wait calls that, and shoal::pump() between
/// kernels.
class Operation {
 public:
  virtual ~Operation() = default;
  /// Advances as far as possible without waiting. Returns true when complete, and is not called again then.
  virtual bool advance() = 0;
  /// Name in the trace: "all_gather".
  virtual std::string_view name() const = 0;
  /// Description for messages about a hang: "all_gather #17 of all, 4096 bytes".
  virtual std::string describe() const = 0;
  /// What the table of a report about a hang calls it, with the step and the unit: "all_gather". It is cut to the length of
  /// activity::Name.
  virtual std::string in_words() const { return std::string(name()); }

 protected:
  /// The queue of the kernels that advance() enqueues, the same in each call; none: advance() enqueues no kernels.
  /// Operations that only gather name `gather`, so that parameters do not wait behind sums of gradients. The kernels come
  /// after all that is on the current queue when the operation is started, and before all that is enqueued after
  /// Request::wait() on the queue that is current then. They are not ordered with any other queue.
  virtual std::optional<device::Queue> queue() const { return device::Queue::reduce; }
  /// True if all steps are taken when the operation is started. That is necessary for operations of several steps on a
  /// queued group: its calls must be made in the same order on all ranks, and progress() takes the steps of different
  /// operations in an order that depends on time. No step may then wait for anything that the host must do.
  virtual bool whole_at_start() const { return false; }

 private:
  friend class Request;
  friend class OpenOperations;

  /// Calls advance(), and records the trace event when the operation is complete.
  bool step();
  void advance_on_queue();
  /// From now on, the kernels of this operation come after what the caller has enqueued so far.
  void after_what_precedes() const;
  /// The operation is complete: what the caller enqueues from now on comes after its kernels.
  void before_what_follows() const;

  bool done_ = false;
  bool nested_ = false;  // started within advance() of another operation
  bool traced_ = false;
  std::int16_t unit_ = -1, group_ = -1;
  std::int32_t trace_step_ = 0;
  std::uint64_t number_ = 0, bytes_ = 0;
  std::int64_t begin_ns_ = 0;
  device::Event enqueued_;  // behind its kernels, when it is complete
};

/// Handle of an operation. It is complete when wait() has returned or test() has returned true; until then its buffers and
/// its scratch memory must stay alive and untouched. The messages of a complete operation have arrived, but its kernels may
/// only have been enqueued. The caller may enqueue work that uses this memory at once, since it comes after these kernels
/// on the caller's current queue (device/queue.hpp). The host must wait for the device (device::wait_for_queue()) before it
/// reads, writes or frees the memory. Operations of Communicator itself have no kernels: the host may use its own memory
/// again as soon as they are complete.
/// The destructor of an unfinished request waits for it; while an exception unwinds the stack, for at most a second.
/// Requests that are created within advance() of an operation are its sub-operations: only that advance() tests them,
/// progress() does not.
class [[nodiscard]] Request {
 public:
  Request() = default;  ///< complete
  /// Starts the operation.
  explicit Request(std::shared_ptr<Operation> operation);
  Request(Request&&) noexcept = default;
  Request& operator=(Request&&) noexcept;
  ~Request();
  bool test();
  /// Waits by testing (comm/wait.hpp). The trace records the time as an event of kind `wait` with the operation's name.
  void wait();
  bool complete() const { return operation_ == nullptr; }
  /// Records the operation as a trace event, from begin_ns (trace::now_ns()) until it is complete. group: index of the
  /// group; bytes: bytes that this rank sends. The event belongs to the unit that trace::unit() returns now. The name is
  /// passed because a request that completed immediately has already dropped its operation.
  void trace_as(std::string_view name, std::int64_t begin_ns, std::int16_t group, std::uint64_t bytes);
  /// What a report about a hang says of the operation (base/activity.hpp): the index of its group, and its number among the
  /// group's collectives; 0: it has none. The step and the unit are those that the trace is at now.
  void label(std::int16_t group, std::uint64_t number);

 private:
  void drop() noexcept;
  void move_on() const;

  std::shared_ptr<Operation> operation_;
};

/// Advances all operations in flight. Returns after a few milliseconds at most, even if there are more sums to compute and
/// messages to copy. Costs one test if nothing is in flight.
void progress();

enum class Reduce { sum, min, max };

/// Bytes that this rank has sent within its node and to other nodes.
struct Traffic {
  std::uint64_t intra = 0, inter = 0;
  std::uint64_t total() const { return intra + inter; }
};
/// Traffic by name of operation, over all groups, since the start or reset_traffic(). Traced groups count (comm/traced.hpp).
std::map<std::string, Traffic> traffic();
void reset_traffic();

/// Tags of messages (Communicator::send()) are below this.
inline constexpr int end_of_message_tags = 1 << 14;

/// Messages of Communicator::exchange().
struct Outgoing {
  int to = 0;
  Span<const std::byte> data;
};
struct Incoming {
  int from = 0;
  Span<std::byte> data;
};

/// All ranks of a group must make the same calls in the same order, from one thread.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;
  /// Returns true if rank r of this group runs on this rank's node.
  virtual bool same_node(int r) const = 0;
  /// True if operations on arenas (device/memory.hpp) are enqueued, as kernels are: a request is complete as soon as its
  /// operation is enqueued on the current queue, and only what is enqueued after Request::wait() comes after it. False if
  /// the host drives the operations: then a request is complete when its messages have arrived.
  virtual bool queued() const { return false; }
  /// On a queued group: the largest power of two that divides the number of ranks on a node, if all nodes have the same
  /// number of consecutive ranks of the group; otherwise 1. The same on all ranks.
  virtual int queued_ranks_per_node() const { return 1; }
  /// True if operations on Queue::gather have connections of their own on this queued group (comm.gather_group), so that
  /// they do not wait for others.
  virtual bool gathers_apart() const { return false; }
  /// Collective over the ranks of all groups: on a queued group, lets the library that sends arenas make what operations on
  /// this queue need, if it has not yet. Otherwise the first operation does that, for all groups.
  virtual void prepare(device::Queue /*queue*/) {}

  /// Point to point. `tag` < end_of_message_tags pairs a send with its receive. Messages may have any size, also 0 or more
  /// than 2^31 bytes.
  virtual Request send(Span<const std::byte> data, int to, int tag) = 0;
  virtual Request receive(Span<std::byte> data, int from, int tag) = 0;
  /// All these messages as one operation, whose messages do not wait for each other. The messages between two ranks are
  /// paired in their order, and are of equal sizes on both; empty ones are left out. No rank sends to itself. `tag` as in
  /// send(). Traced groups count it as "send".
  virtual Request exchange(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming, int tag) = 0;

  /// all = the shards of ranks 0 .. size()-1, one after another; all.size() == shard.size() * size(). In place if `shard` is
  /// already at its position in `all`.
  virtual Request all_gather(Span<const std::byte> shard, Span<std::byte> all) = 0;
  /// In place. `all` has parts[r] bytes for each rank r, one after another. On entry this rank's part is valid; on
  /// completion all parts are.
  virtual Request all_gather_parts(Span<std::byte> all, const std::vector<std::size_t>& parts) = 0;
  /// own = the sum over ranks of this rank's part of `data`, which has parts[r] bytes of floats for each rank r, one after
  /// another. The MPI library chooses the order of summation.
  virtual Request reduce_scatter(Span<const std::byte> data, const std::vector<std::size_t>& parts, Span<std::byte> own) = 0;
  virtual Request broadcast(Span<std::byte> data, int root) = 0;
  virtual Request barrier() = 0;

  /// In place. The MPI library chooses the order of summation; so for integers, minima and maxima, and for
  /// comm.collectives = native. For reproducible sums of floats see comm/tree_reduce.hpp.
  virtual Request all_reduce(Span<float> data, Reduce how) = 0;
  virtual Request all_reduce(Span<double> data, Reduce how) = 0;
  virtual Request all_reduce(Span<std::int64_t> data, Reduce how) = 0;
  virtual Request all_reduce(Span<std::uint64_t> data, Reduce how) = 0;

  // For composite operations such as those of comm/tree_reduce.hpp. Their messages go through wire(), which is neither
  // counted nor traced; the operation is counted and traced as one.

  /// Tag for the messages of the next composite operation, from 2^14 on. The same on all ranks, since all ranks start
  /// operations in the same order.
  virtual int next_tag() = 0;
  virtual Communicator& wire() { return *this; }
  /// Starts a composite operation. sent: the bytes that this rank sends in it.
  virtual Request start(std::shared_ptr<Operation> operation, const Traffic& sent);
};

template <typename T>
Span<std::byte> bytes_of(Span<T> data) {
  return {reinterpret_cast<std::byte*>(data.data()), data.size_bytes()};
}
template <typename T>
Span<const std::byte> const_bytes_of(Span<const T> data) {
  return {reinterpret_cast<const std::byte*>(data.data()), data.size_bytes()};
}

}  // namespace shoal::comm
