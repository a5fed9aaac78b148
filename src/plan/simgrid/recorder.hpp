// SPDX-License-Identifier: Apache-2.0
// Writes down what a rank does, and gives its collectives lanes ([Note: lanes] in recording.hpp).
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/plan/recording.hpp"

namespace shoal::plan {

/// Why such a network cannot be simulated.
inline constexpr const char* measured_with_nccl =
    "--network: the network was measured with nccl; the exchanges of a simulation are those over MPI";

class Recorder final : public RankListener {
 public:
  void computes(double seconds) override;
  void starts(std::size_t number, OperationKind kind, const Cost& cost, std::size_t after) override;
  void waits(std::size_t number) override;

  /// number: of a message, an index in Recording::messages.
  void starts_message(std::size_t number);
  void waits_for_message(std::size_t number);

  std::size_t actions() const { return actions_.size(); }
  const std::vector<RecordedOperation>& operations() const { return operations_; }

  /// The actions, with a lane for each operation: the lowest one on which nothing is in flight, or that of the operation
  /// that it follows. A rank makes an operation that it awaits at once by itself. Sets the lanes of operations(). taken: the
  /// lanes 1 to `taken` are those of messages.
  std::vector<RecordedAction> with_lanes(int taken = 0);
  /// Number of lanes, those of messages included.
  int lanes() const { return lanes_; }

 private:
  int free_lane(std::size_t number, int taken);
  bool awaited_at_once(std::size_t start) const;

  std::vector<RecordedAction> actions_;
  std::vector<RecordedOperation> operations_;
  std::vector<std::size_t> after_;      // by operation: the one that it follows, or itself
  std::vector<std::size_t> in_flight_;  // by lane
  int lanes_ = 0;
};

}  // namespace shoal::plan
