// SPDX-License-Identifier: Apache-2.0
// Gradients of this rank's units: summed over the rank's own micro-batches and over ranks, in buckets whose reduction
// starts while backward goes on. [Note: one trajectory] in zero/accumulation.hpp has the order of all sums. Stages that
// shard gradients reduce them after every micro-step, the others once a round.
//
// Every unit counts its own turns, that is its micro-batches of the step, and ends its rounds by itself. So units may be in
// different turns: several micro-batches may be between their forward and their backward, and two sweeps (zero/buckets.hpp)
// may be in different accumulation rounds. The order of sums does not depend on that, since each unit adds its own turns in
// ascending order.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/zero/accumulation.hpp"
#include "shoal/zero/buckets.hpp"
#include "shoal/zero/engine_options.hpp"
#include "shoal/zero/quantization.hpp"
#include "zero/global_norm.hpp"
#include "zero/gradient_squares.hpp"
#include "zero/partial_sums.hpp"
#include "zero/reduction_order.hpp"

namespace shoal::zero {

class Accumulator;

/// A step calls, in this order: of() and complete() for every unit of the sweeps and turn, with the sweeps in any order;
/// finish_step(); then start_gather(), measure_norm(), share_squares(), norm(), wait_for_gather(), and reads reduced(). All
/// ranks of the group make the same calls. The stages of a pipeline have different units, and share share_squares() and
/// norm().
class Gradients {
 public:
  /// sweeps: every unit that is present in one of them. places: as those of PartialSums.
  Gradients(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts, const Sweeps& sweeps,
            const AccumulationPlan& accumulation, const RankGroups& groups, const GradientOptions& options, Memory& memory,
            const std::vector<Where>& places = {});
  ~Gradients();
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  /// The unit's flat buffer in float, to which backward writes the gradient of the unit's turn. The first call of a turn
  /// begins it. The first of a sweep waits for all buckets in flight, whose memory is needed now; if gradients are reduced
  /// after every micro-step, fail() if another sweep is in the middle of a turn, since all sweeps share that memory.
  float* of(int unit);
  /// Backward has written all of the unit's gradient. Adds it to the partial sums, and starts to reduce complete buckets.
  /// The unit's next turn is the following one.
  void complete(int unit);
  /// Called after the last turn of all units of the sweeps. Waits until each rank has the step's sum on its shards.
  void finish_step();

  /// If set, each sum is on its owner's shard alone until start_gather(), even if native collectives could leave it on all
  /// ranks: sync/gradient_sum.hpp adds to the shards.
  void keep_in_shards(bool keep) { in_shards_ = keep; }
  /// Elements `range` of this rank's shard of the reduced gradient, between finish_step() and start_gather().
  Span<std::byte> shard(int unit, Range range) { return sums_.sum(unit, range); }

  /// Collective. If every rank updates whole units (stage 0), starts to gather the reduced gradients on all ranks.
  void start_gather();
  /// Called after finish_step(). Enqueues the sums for norm(), and copies to the host: of these, of the sums for
  /// square_of_turn(), and of the errors of quantization. The gather is in flight meanwhile.
  void measure_norm();
  /// After the host has waited for an event behind measure_norm(): in a pipeline, exchanges the sums for square_of_turn()
  /// with the other stages. Collective.
  void share_squares() { squares_.share(); }
  /// Norm of the reduced gradient, after the host has waited for an event behind measure_norm(). Writes the errors of
  /// quantization into the trace. Collective.
  Norm norm();
  /// Waits until this rank holds the reduced gradient of ShardLayout::optimizer, all its units.
  void wait_for_gather();
  /// Elements `range` of the unit's reduced gradient, within ShardLayout::optimizer.
  Span<const std::byte> reduced(int unit, Range range) const { return sums_.sum(unit, range); }

  /// Sum of squares of the gradient of a turn before it was added to any other; 0 with Squares::none. After share_squares().
  double square_of_turn(std::size_t turn) const { return squares_.of_micro_step(turn); }
  /// Used with Squares::weighted.
  SampledWeights& weights() { return squares_.weights(); }

  /// As GradientQuantState has them.
  std::vector<NamedSlice> residual_slices() const { return quant_state_.residual_slices(); }
  const std::string& residual_layout() const { return quant_state_.residual_layout(); }
  void scale_residuals(double factor) { quant_state_.scale_residuals(factor); }
  void reset_residuals() { quant_state_.reset_residuals(); }

  DType dtype() const { return options_.dtype; }
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  comm::Blocks blocks(const Bucket& bucket) const;
  void execute(const ReductionCalls& calls);
  void start(std::size_t bucket);
  void finish(std::size_t bucket, std::size_t turn);
  comm::Request reduce(std::size_t bucket, Span<std::byte> scratch);
  bool reduces_whole() const;
  bool has_to_gather() const { return gathers_ && !reduces_whole(); }
  void execute_gather(const Calls& calls);
  comm::Request gather(std::size_t message) const;

  std::vector<model::UnitLayout> units_;
  std::vector<ShardLayout> layouts_;
  AccumulationPlan accumulation_;
  RankGroups groups_;
  GradientOptions options_;
  bool gathers_;  // every rank updates all units, and needs their whole gradients
  bool in_shards_ = false;

  std::vector<Bucket> buckets_;
  std::vector<Bucket> gathered_;  // those of whole gradients: nobody updates copies
  PartialSums sums_;
  std::unique_ptr<comm::Reducer> reducer_, gatherer_;  // for the sums, and for gathering them to every rank
  GlobalNorm norm_;
  GradientSquares squares_;
  std::unique_ptr<Accumulator> accumulator_;
  GradientQuantState quant_state_;
  std::vector<Span<std::byte>> scratch_;  // one per bucket in flight

  ReductionOrder order_;
  std::deque<comm::Request> reducing_;  // in flight, oldest first
  std::size_t started_ = 0;             // reductions since the step began
  MessageSeries gather_;                // of whole gradients
  std::deque<comm::Request> gathering_;
};

}  // namespace shoal::zero
