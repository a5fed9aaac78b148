// SPDX-License-Identifier: Apache-2.0
// Gradients of all units on this rank: summed over the rank's own micro-batches, then over ranks in messages that start
// while backward goes on. The order of every sum is [Note: one trajectory] in zero/turns.hpp.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/comm/tree_reduce.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/zero/messages.hpp"
#include "shoal/zero/turns.hpp"

namespace shoal::zero {

/// Which rank of how many this is, and how they communicate (null while only memory is counted).
struct Placement {
  int rank = 0, ranks = 1;
  comm::Communicator* group = nullptr;
};

struct GradientOptions {
  std::size_t message_elements = 6'250'000;  ///< largest message
  bool overlap = true;                       ///< reduce while backward goes on; false: after it
};

/// The 2-norm over all gradients of the step, and the unit nearest to the head whose gradient is not finite (-1: none):
/// backward met it first.
struct Norm {
  double value = 0;
  int broken_unit = -1;
};

class Gradients {
 public:
  Gradients(const std::vector<model::UnitLayout>& units, const Turns& turns, const Placement& placement,
            const GradientOptions& options, Memory& memory);

  /// The next micro-batch's gradient is about to be computed.
  void begin_turn(std::size_t round, std::size_t turn);
  /// Where it goes, by unit.
  float* of(int unit);
  /// The unit's gradient is whole: merges it into the partial sums and, on the round's last turn, starts what can be
  /// reduced.
  void complete(int unit);
  /// After the last turn of a round: all of the round's sum is on its owners. After the last round: the whole sum.
  void finish_round();

  /// Of the reduced gradient. Collective, after the last round's finish_round(); the ranks' whole gradients are still on
  /// their way meanwhile.
  Norm norm();
  /// Waits until this rank holds the reduced gradient of all units. After norm().
  void gather();

  /// The reduced gradient of a unit: its flat buffer.
  Span<const float> reduced(int unit) const;

  const std::vector<Message>& messages() const { return messages_; }

 private:
  Span<float> buffer(std::size_t place, int unit) const;
  comm::Blocks blocks(const Message& message) const;
  void start_ready();
  void start(std::size_t message);
  void add_rounds();

  std::vector<model::UnitLayout> units_;
  Turns turns_;
  Placement placement_;
  GradientOptions options_;
  std::vector<std::size_t> offsets_;  // of each unit in the buffers below
  std::vector<Span<float>> stack_;    // [0]: the reduced gradient in the end; the rest: partial sums
  Span<float> rounds_;                // this rank's shards summed over the rounds before (empty: one round only)
  std::vector<std::size_t> shard_offsets_;

  std::vector<Message> messages_;
  std::vector<Span<std::byte>> scratch_;  // one per message in flight
  std::size_t round_ = 0, turn_ = 0, started_ = 0;
  std::vector<bool> complete_;
  std::deque<comm::Request> reducing_;
  std::vector<comm::Request> gathering_;

  std::vector<Span<double>> piece_sums_;  // by unit, of this rank's shard
  Span<double> subtrees_, all_subtrees_;  // of all units: this rank's, and every rank's
};

}  // namespace shoal::zero
