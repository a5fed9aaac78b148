// SPDX-License-Identifier: Apache-2.0
// Gradients of all units on this rank: summed over the rank's own micro-batches and over ranks, in buckets whose reduction
// starts while backward goes on. [Note: one trajectory] in zero/accumulation.hpp has the order of all sums. Stages that
// shard gradients reduce them after every micro-step, the others once a round.
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
#include "shoal/zero/gradient_squares.hpp"
#include "shoal/zero/norm.hpp"
#include "shoal/zero/partial_sums.hpp"
#include "shoal/zero/quantization.hpp"

namespace shoal::zero {

struct GradientOptions {
  std::size_t bucket_elements = 6'250'000;  ///< of the largest bucket
  bool overlap = true;                      ///< backward goes on while buckets are reduced
  DType dtype = DType::f32;                 ///< in which gradients are kept, summed and sent
  comm::Collectives collectives = comm::Collectives::reproducible;
  Squares squares = Squares::none;
  std::optional<QuantizedReduction> quantized = std::nullopt;  ///< qgZ
};

class Accumulator;

/// A step calls, in this order: for each round and micro-step begin_micro_step(), then of() and complete() for every unit,
/// and finish_round() at the end of the round; then start_gather(), measure_norm(), norm(), wait_for_gather(), and reads
/// reduced().
class Gradients {
 public:
  Gradients(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts,
            const AccumulationPlan& accumulation, const RankGroups& groups, const GradientOptions& options, Memory& memory);
  ~Gradients();
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  /// The next micro-batch's gradient is about to be computed.
  void begin_micro_step(std::size_t round, std::size_t micro_step);
  /// The unit's flat buffer in float, to which backward writes its gradient.
  float* of(int unit);
  /// Backward has written all of the unit's gradient. Adds it to the partial sums, and starts to reduce complete buckets.
  void complete(int unit);
  /// Called after the last micro-step of a round. Waits until each rank has the round's sum on its shards; after the last
  /// round that is the step's sum.
  void finish_round();

  /// If set, each sum is on its owner's shard alone until start_gather(), even if native collectives could leave it on all
  /// ranks: sync/gradient_sum.hpp adds to the shards.
  void keep_in_shards(bool keep) { in_shards_ = keep; }
  /// Elements `range` of this rank's shard of the reduced gradient, between the last finish_round() and start_gather().
  Span<std::byte> shard(int unit, Range range) { return sums_.sum(unit, range); }

  /// Collective. If every rank updates whole units (stage 0), starts to gather the reduced gradients on all ranks.
  void start_gather();
  /// Called after the last round. Enqueues the sums for norm(), and copies to the host: of these, of the sums for
  /// micro_step_square(), and of the errors of quantization. The gather is in flight meanwhile.
  void measure_norm();
  /// Norm of the reduced gradient, after the host has waited for an event behind measure_norm(). Writes the errors of
  /// quantization into the trace. Collective.
  Norm norm();
  /// Waits until this rank holds the reduced gradient of ShardLayout::optimizer, all units.
  void wait_for_gather();
  /// Elements `range` of the unit's reduced gradient, within ShardLayout::optimizer.
  Span<const std::byte> reduced(int unit, Range range) const { return sums_.sum(unit, range); }

  /// Sum of squares of the gradient of a micro-step, counted over all rounds of the step, before it was added to any other;
  /// 0 with Squares::none. After the host has waited for an event behind measure_norm().
  double micro_step_square(std::size_t micro_step) const { return squares_.of_micro_step(micro_step); }
  /// Used with Squares::weighted.
  SampledWeights& weights() { return squares_.weights(); }

  /// As GradientQuantState has them.
  std::vector<NamedSlice> residual_slices() const { return quant_state_.residual_slices(); }
  const std::string& residual_layout() const { return quant_state_.residual_layout(); }

  DType dtype() const { return options_.dtype; }
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  /// When the reduction of a bucket is started.
  enum class Start {
    in_backward,          ///< when its last unit is complete; backward goes on meanwhile
    in_backward_waiting,  ///< when its last unit is complete; backward waits for it
    at_end_of_round,
  };

  comm::Blocks blocks(const Bucket& bucket) const;
  comm::Request reduce(std::size_t bucket, Span<std::byte> scratch);
  bool reduces_whole() const;
  bool has_to_gather() const { return gathers_ && !reduces_whole(); }
  void start_ready();
  void start_next();
  comm::Request gather(std::size_t bucket) const;
  void finish_oldest();
  void finish_started();
  void finish_reduction();

  std::vector<model::UnitLayout> units_;
  std::vector<ShardLayout> layouts_;
  RankGroups groups_;
  GradientOptions options_;
  Start start_;
  std::size_t micro_steps_per_round_;
  std::size_t first_reduced_micro_step_;  // of a round: earlier ones are summed on this rank alone
  bool gathers_;                          // every rank updates all units, and needs their whole gradients
  bool in_shards_ = false;

  std::vector<Bucket> buckets_;
  PartialSums sums_;
  std::unique_ptr<comm::Reducer> reducer_, gatherer_;  // for the sums, and for gathering them to every rank
  GlobalNorm norm_;
  GradientSquares squares_;
  std::unique_ptr<Accumulator> accumulator_;
  GradientQuantState quant_state_;
  std::vector<Span<std::byte>> scratch_;  // one per bucket in flight

  std::size_t round_ = 0, micro_step_ = 0;
  bool first_buffer_ = false;               // no unit's buffer was asked for in this micro-step yet
  std::vector<bool> may_write_, complete_;  // by unit, in this micro-step
  std::size_t started_ = 0, finished_ = 0;  // buckets of this reduction
  std::size_t reduced_micro_step_ = 0;      // the one that the buckets in flight belong to
  std::deque<comm::Request> reducing_;
  std::vector<comm::Request> gathering_;
};

}  // namespace shoal::zero
