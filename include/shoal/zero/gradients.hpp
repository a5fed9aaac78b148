// SPDX-License-Identifier: Apache-2.0
// Gradients of all units on this rank: summed over the rank's own micro-batches and over ranks, in messages that start while
// backward goes on. The order of every sum is [Note: one trajectory] in zero/accumulation.hpp. A stage that shares gradients
// out reduces them after every turn, any other once a round.
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
#include "shoal/zero/staging.hpp"

namespace shoal::zero {

struct GradientOptions {
  std::size_t bucket_elements = 6'250'000;  ///< largest message
  bool overlap = true;                      ///< reduce while backward goes on; false: after it
  DType dtype = DType::f32;                 ///< in which gradients are held, summed and sent
  comm::Collectives collectives = comm::Collectives::reproducible;
  Squares squares = Squares::none;
  std::optional<QuantizedReduction> quantized = std::nullopt;  ///< qgZ
};

class Gradients {
 public:
  Gradients(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts,
            const AccumulationPlan& accumulation, const RankGroups& groups, const GradientOptions& options, Memory& memory);

  /// The next micro-batch's gradient is about to be computed.
  void begin_micro_step(std::size_t round, std::size_t micro_step);
  /// Where it goes, by unit: the flat buffer in float.
  float* of(int unit);
  /// The unit's gradient is whole: it is merged into the partial sums, and what can be reduced is started.
  void complete(int unit);
  /// After the last turn of a round: all of the round's sum is on its owners. After the last round: the whole sum.
  void finish_round();

  /// Whether sums are only on their owners' shards until norm(), whatever the collectives, since more is added there.
  void keep_in_shards(bool keep) { in_shards_ = keep; }
  /// Elements `range` of this rank's shard of the reduced gradient, between the last finish_round() and norm().
  Span<std::byte> shard(int unit, Range range) { return sums_.sum(unit, range); }

  /// Of the reduced gradient. Collective, after the last round's finish_round(); what other ranks need whole is still on its
  /// way meanwhile.
  Norm norm();
  /// Of this turn's gradient, before it was added to any other; 0 with Squares::none. After the turn's backward.
  double micro_step_square() const { return squares_.of_micro_step(); }
  /// Used with Squares::weighted.
  SampledWeights& weights() { return squares_.weights(); }
  /// Waits until this rank holds the reduced gradient of ShardLayout::optimizer, all units. After norm().
  void gather();

  /// As GradientQuantState has them.
  std::vector<NamedSlice> residual_slices() const { return quant_state_.residual_slices(); }
  const std::string& residual_layout() const { return quant_state_.residual_layout(); }

  DType dtype() const { return options_.dtype; }
  /// Elements `range` of the unit's reduced gradient; they lie in ShardLayout::optimizer.
  Span<const std::byte> reduced(int unit, Range range) const { return sums_.sum(unit, range); }

  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  comm::Blocks blocks(const Bucket& bucket) const;
  Span<std::byte> outgoing(int unit, Range range) const;
  comm::Request reduce(std::size_t bucket, Span<std::byte> scratch);
  bool reduces_whole() const;
  void start_ready();
  void start_next();
  comm::Request start_gather(std::size_t bucket) const;
  void finish_oldest();
  void finish_buckets();

  std::vector<model::UnitLayout> units_;
  std::vector<ShardLayout> layouts_;
  AccumulationPlan accumulation_;
  RankGroups groups_;
  GradientOptions options_;
  bool gathers_;  // every rank updates all units, and needs their whole gradients
  bool in_shards_ = false;

  std::vector<Bucket> buckets_;
  PartialSums sums_;
  Staging staging_;
  std::unique_ptr<comm::Reducer> reducer_, gatherer_;  // for the sums, and for gathering them to every rank
  GradientQuantState quant_state_;
  GlobalNorm norm_;
  GradientSquares squares_;
  std::vector<Span<std::byte>> scratch_;  // one per message in flight

  std::size_t round_ = 0, micro_step_ = 0;
  std::vector<bool> begun_, complete_;      // by unit, in this turn
  std::size_t started_ = 0, finished_ = 0;  // messages of this reduction
  std::size_t reduced_micro_step_ = 0;      // the turn that the messages under way belong to
  std::deque<comm::Request> reducing_;
  std::vector<comm::Request> gathering_;
};

}  // namespace shoal::zero
