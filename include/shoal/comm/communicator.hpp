// SPDX-License-Identifier: Apache-2.0
// Ranks that communicate together. The interface is narrow on purpose; the reproducible tree, the hierarchical and the
// quantized forms are built of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::comm {

/// An operation under way. Progress is made by comm::progress() (called by every wait and, through shoal::pump(), between
/// kernels).
class Operation {
 public:
  virtual ~Operation() = default;
  /// Moves on as far as possible without waiting; true when complete. Called until it has returned true once.
  virtual bool advance() = 0;
  /// What the trace calls it: "all_gather".
  virtual std::string_view name() const = 0;
  /// For messages about a hang: "all_gather #17 of world, 4096 bytes".
  virtual std::string describe() const = 0;

 private:
  friend class Request;
  friend class OpenOperations;

  /// advance(), and what belongs to the end of an operation.
  bool step();

  bool done_ = false;
  bool nested_ = false;  // started by another operation
  bool traced_ = false;
  std::int16_t unit_ = -1, group_ = -1;
  std::uint64_t bytes_ = 0;
  std::int64_t begin_ns_ = 0;
};

/// Handle of an operation. Its buffers must stay alive and untouched until wait() has returned or test() said true.
/// Dropping a handle of an unfinished operation waits for it; while an exception unwinds the stack, for a second at most.
/// What an operation starts in its advance() is a part of it: it tests these requests there, and nobody else does.
class [[nodiscard]] Request {
 public:
  Request() = default;  ///< complete
  /// Starts the operation.
  explicit Request(std::shared_ptr<Operation> operation);
  Request(Request&&) noexcept = default;
  Request& operator=(Request&&) noexcept;
  ~Request();
  bool test();
  /// Waits by testing (comm/wait.hpp). The time is an event of kind wait in the trace, under the operation's name.
  void wait();
  bool complete() const { return operation_ == nullptr; }
  /// Makes an event of the operation, from begin_ns (trace::now_ns()) until it is complete: index of the group, bytes that
  /// this rank sends, for the unit that trace::unit() names now. The handle of an operation that was complete at once knows
  /// its name no more, hence the name.
  void trace_as(std::string_view name, std::int64_t begin_ns, std::int16_t group, std::uint64_t bytes);

 private:
  void drop() noexcept;
  void move_on() const;

  std::shared_ptr<Operation> operation_;
};

/// Moves all open operations on. Lasts some milliseconds at most (as long as there are sums to be made and messages to be
/// copied), and costs one test when nothing is open.
void progress();

enum class Reduce { sum, min, max };

/// Bytes this rank has sent, by operation name, within the node and between nodes.
struct Traffic {
  std::uint64_t intra = 0, inter = 0;
  std::uint64_t total() const { return intra + inter; }
};
/// Since the start or reset_traffic(), of all groups together (comm/traced.hpp counts).
std::map<std::string, Traffic> traffic();
void reset_traffic();

/// All ranks of a group make the same calls in the same order, from one thread.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;
  /// Whether rank r of this group runs on this rank's node.
  virtual bool same_node(int r) const = 0;

  /// Point to point; `tag` < 2^19 pairs a send with its receive. Any size (also above 2^31 bytes, and 0).
  virtual Request send(Span<const std::byte> data, int to, int tag) = 0;
  virtual Request receive(Span<std::byte> data, int from, int tag) = 0;

  /// all = the shards of ranks 0 .. size()-1, one after another; all.size() == shard.size() * size(). In place if shard
  /// already lies at its own position in all.
  virtual Request all_gather(Span<const std::byte> shard, Span<std::byte> all) = 0;
  /// all = the parts of ranks 0 .. size()-1, of parts[r] bytes each, one after another; before, this rank's own is there.
  virtual Request all_gather_parts(Span<std::byte> all, const std::vector<std::size_t>& parts) = 0;
  /// own = the sum over ranks of this rank's part of data, which holds parts[r] bytes of floats for every rank r, one after
  /// another. The MPI library's own order of summation.
  virtual Request reduce_scatter(Span<const std::byte> data, const std::vector<std::size_t>& parts, Span<std::byte> own) = 0;
  virtual Request broadcast(Span<std::byte> data, int root) = 0;
  virtual Request barrier() = 0;

  /// In place. The MPI library's own order of summation: for integers, minima and maxima, and with
  /// comm.collectives = native. Reproducible sums of floats: comm/tree_reduce.hpp.
  virtual Request all_reduce(Span<float> data, Reduce how) = 0;
  virtual Request all_reduce(Span<double> data, Reduce how) = 0;
  virtual Request all_reduce(Span<std::int64_t> data, Reduce how) = 0;
  virtual Request all_reduce(Span<std::uint64_t> data, Reduce how) = 0;

  // What composite operations (comm/tree_reduce.hpp) are built with: messages of the group below all decorators, and an
  // operation that counts, and is traced, as one.

  /// The tag of the next composite operation's messages, 2^19 .. 2^20 - 1, the same on all ranks (they start operations in
  /// one order).
  virtual int next_tag() = 0;
  virtual Communicator& wire() { return *this; }
  /// Starts a composite operation, in which this rank sends so many bytes.
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
