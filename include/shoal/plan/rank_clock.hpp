// SPDX-License-Identifier: Apache-2.0
// The clock of a rank that computes while operations are in flight. All ranks are assumed to do the same at the same time.
// The links within a node, and those between nodes, serve one operation after another, in the order in which operations
// reach them. So one message may cross between nodes while the next one is still exchanged within the node, unless
// operations follow each other (Cost::sequence).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "shoal/plan/collective_costs.hpp"

namespace shoal::plan {

enum class OperationKind { reduce_scatter, all_gather, send };
inline constexpr std::size_t operation_kinds = 3;

/// Mean number of bytes per step.
struct Bytes {
  double intra = 0, inter = 0;
  double total() const { return intra + inter; }
};

/// Bytes that a rank sends, by operation.
struct Sent {
  std::array<Bytes, operation_kinds> of{};
  Bytes& operator[](OperationKind operation) { return of[static_cast<std::size_t>(operation)]; }
  const Bytes& operator[](OperationKind operation) const { return of[static_cast<std::size_t>(operation)]; }
  Sent& operator+=(const Sent& other);
  Bytes total() const;
};
/// Adds the bytes that an operation sends: sent[i] is of rank first + i of the run.
void add_sent(std::vector<Sent>& sent, OperationKind operation, const Cost& cost, std::size_t first, double weight = 1);

/// Is told what a rank does, in the order in which it does it.
class RankListener {
 public:
  RankListener() = default;
  virtual ~RankListener() = default;
  RankListener(const RankListener&) = delete;
  RankListener& operator=(const RankListener&) = delete;

  virtual void computes(double seconds) = 0;
  /// number: counts the operations from 0. after: the operation whose end this one waits for without the rank, or its own
  /// number.
  virtual void starts(std::size_t number, OperationKind kind, const Cost& cost, std::size_t after) = 0;
  virtual void waits(std::size_t number) = 0;
};

class Sequences;

class RankClock {
 public:
  /// Counts the bytes of so many ranks of the run, from this one on.
  explicit RankClock(int ranks, int first = 0);
  ~RankClock();
  RankClock(const RankClock&) = delete;
  RankClock& operator=(const RankClock&) = delete;
  /// listener must outlive this object's use.
  void set_listener(RankListener& listener) { listener_ = &listener; }

  /// An operation in flight.
  struct Pending {
    /// When its exchanges end, by the clock of the rank; none: wait() finds out (sequences.hpp).
    std::optional<double> arrives_s = 0.0;
    double after_s = 0;      ///< computation that follows, in wait()
    std::size_t number = 0;  ///< of the operation, from 0
  };
  /// From now on, bytes, seconds of operations and elapsed time count with this weight. Before the first call it is 0.
  void set_weight(double weight);
  /// The rank computes.
  void work(double seconds);
  /// All ranks start an operation. What they compute before it (Cost::before_s) passes at once.
  Pending start(OperationKind operation, const Cost& cost);
  /// An operation that begins, by itself, when `after` has ended.
  Pending start_after(const Pending& after, OperationKind operation, const Cost& cost);
  /// The rank waits until the operation has arrived, and computes what follows. Once for each operation.
  void wait(const Pending& pending);
  void run(OperationKind operation, const Cost& cost) { wait(start(operation, cost)); }

  double now_s() const { return now_s_; }
  double elapsed_s() const { return elapsed_s_ + weight_ * (now_s_ - since_s_); }  ///< weighted
  double communication_s() const { return communication_s_; }                      ///< of all operations, weighted
  const std::vector<Sent>& sent() const { return sent_; }                          ///< by counted rank, weighted

 private:
  double use(double& link_free_s, double from_s, double seconds);
  Pending begin(OperationKind operation, const Cost& cost, std::optional<std::size_t> after);

  RankListener* listener_ = nullptr;
  std::size_t operations_ = 0;
  double now_s_ = 0, node_free_s_ = 0, across_free_s_ = 0;
  std::unique_ptr<Sequences> sequences_;
  double weight_ = 0, since_s_ = 0, elapsed_s_ = 0, communication_s_ = 0;
  std::size_t first_;
  std::vector<Sent> sent_;
};

}  // namespace shoal::plan
