// SPDX-License-Identifier: Apache-2.0
// Which bucket of gradients is reduced when, while backward completes the gradients of a rank's units turn by turn. The
// calls follow from the order in which units are begun and completed, and from nothing else, so they are the same on all
// ranks of a group.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "shoal/model/unit.hpp"
#include "shoal/zero/accumulation.hpp"
#include "shoal/zero/buckets.hpp"
#include "zero/message_order.hpp"

namespace shoal::zero {

/// Starts the reduction of a bucket with the gradients, or the sums of the round, that its units have in a turn; or waits
/// for it.
struct ReductionCall {
  Call::Kind kind = Call::Kind::start;
  std::size_t bucket = 0, turn = 0;
  bool operator==(const ReductionCall&) const = default;
};
using ReductionCalls = std::vector<ReductionCall>;

class ReductionOrder {
 public:
  /// buckets_before: by unit, the number of buckets of its sweep that must have ended before backward writes its gradient
  /// (Staging::buckets_before()). overlap: backward goes on while buckets are reduced.
  ReductionOrder(const std::vector<model::UnitLayout>& units, const Sweeps& sweeps, const std::vector<Bucket>& buckets,
                 const AccumulationPlan& accumulation, bool overlap, std::vector<std::size_t> buckets_before);

  /// What must be done before backward writes the unit's gradient of its next turn. The first unit of a sweep begins the
  /// turn of the sweep, and waits for all buckets in flight, whose memory is needed now; if gradients are reduced after
  /// every micro-step, fail() if another sweep is in the middle of a turn, since all sweeps share that memory. The unit is
  /// open then; for an open unit nothing is left to do.
  ReductionCalls begin(int unit);
  /// What follows when backward has written all of an open unit's gradient: buckets start whose units are all complete.
  ReductionCalls complete(int unit);
  /// After the last turn of all units of the sweeps: waits for all buckets. The next step begins.
  ReductionCalls end_step();

  bool open(int unit) const { return open_[static_cast<std::size_t>(unit)]; }
  /// The turn that an open unit is in, or else its next one.
  std::size_t turn(int unit) const { return turn_[static_cast<std::size_t>(unit)]; }

 private:
  /// When the reduction of a bucket is started.
  enum class Start {
    in_backward,          ///< when all its units are complete; backward goes on meanwhile
    in_backward_waiting,  ///< when all its units are complete; backward waits for it
    between_turns,        ///< when a sweep begins, or at the end of the step; its end is awaited there
  };
  struct BucketOfTurn {
    std::size_t bucket, turn;
  };

  void begin_turn(std::size_t sweep, ReductionCalls& calls);
  void require_complete(std::size_t sweep) const;
  void add_ready(int unit, std::size_t turn);
  void start_ready(ReductionCalls& calls);
  void wait_for_oldest(ReductionCalls& calls);
  void wait_for_started(ReductionCalls& calls);

  std::vector<std::string> names_;  // of the units
  Sweeps sweeps_;
  std::vector<Bucket> buckets_;
  AccumulationPlan accumulation_;
  Start start_;
  std::size_t first_reduced_micro_step_;     // of a round: earlier ones are summed on this rank alone
  std::size_t in_flight_;                    // at most
  std::vector<std::size_t> buckets_before_;  // by unit
  std::vector<Range> buckets_of_;            // by unit: indices of the buckets that have a part of it
  std::vector<std::size_t> sweep_of_;        // by unit

  std::vector<std::size_t> turn_;      // by unit: the number of its turns that are complete
  std::vector<bool> open_;             // by unit: its turn has begun
  std::vector<std::size_t> begun_;     // by sweep: number of turns that have begun
  std::deque<BucketOfTurn> ready_;     // not started, in the order in which they became ready
  std::deque<BucketOfTurn> reducing_;  // in flight, oldest first
  std::size_t ended_ = 0;              // reductions since a sweep began its turn
};

}  // namespace shoal::zero
