// SPDX-License-Identifier: Apache-2.0
// A model together with its states on this rank: what one step does with them, from tokens to published parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/model/model.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/zero/gradients.hpp"
#include "shoal/zero/parameters.hpp"
#include "shoal/zero/states.hpp"

namespace shoal::zero {

struct EngineOptions {
  model::ModelOptions model;  ///< vocab_size set
  DType dtype = DType::f32;
  model::Capacity capacity;  ///< training = false: parameters and one forward pass only
  optim::OptimizerOptions optimizer;
  ZeroOptions zero;
  GradientOptions gradients;
  std::size_t micro_batches = 1;  ///< of one step over all ranks
  double grad_clip = 1.0;         ///< 0: none
  std::uint64_t seed = 1;
};

class Engine final : private model::UnitAccess {
 public:
  /// memory: counting (plan/memory.hpp), or reserved for what was counted with the same arguments.
  Engine(const EngineOptions& options, const RankGroups& groups, Memory& memory);

  States& states() { return states_; }
  model::Model& model() { return *model_; }
  const std::vector<model::UnitLayout>& units() const { return units_; }
  const AccumulationPlan& accumulation() const { return accumulation_; }
  const std::vector<Bucket>& buckets() const { return gradients_->buckets(); }

  /// Random initial values; or, after the slices of states() were written to, everything that is derived from them.
  /// Collective.
  void initialize(std::uint64_t seed);
  void rebuild_parameters();
  /// Waits until what an update() published has arrived: before the slices of states() are written to, or read and written.
  void wait_for_parameters() { parameters_->wait_for_parameters(); }

  /// What quantized gradients left over (zero.quant_feedback), for checkpoints: GradientQuantState's.
  std::vector<NamedSlice> residual_slices() const {
    return gradients_ ? gradients_->residual_slices() : std::vector<NamedSlice>{};
  }
  std::string residual_layout() const { return gradients_ ? gradients_->residual_layout() : std::string(); }

  /// The loss, and so every gradient, is multiplied by this from now on; norms and updates are of what it was before.
  void scale_losses(double factor) { loss_scale_ = factor; }
  /// From now on a step's gradient is a part of the mean over so many groups of ranks like this one; before norm() somebody
  /// adds up gradient_shard() of all of them. 1: it is this group's alone.
  void set_gradient_groups(std::size_t groups);
  /// With Squares::weighted, before a step's first micro-batch, once `updates` > 0 were made: from now on
  /// micro_step_square() and Norm::square are of a new sample, weighted by the second moments, which decay by beta2.
  /// Collective.
  void weigh_squares(std::int64_t updates, double beta2);
  /// Forward and backward of this rank's micro-batch of (round, micro_step); returns its summed loss. The step's gradient is
  /// that of the mean over all predictions of all micro-batches.
  double micro_batch(std::size_t round, std::size_t micro_step, const model::MicroBatch& batch);
  /// Of the gradient of the last micro_batch(), as it enters the step's gradient, which is a mean: of its M-th part.
  double micro_step_square() const { return gradients_->micro_step_square() / (loss_scale_ * loss_scale_); }
  /// After the last turn of a round.
  void finish_round() { gradients_->finish_round(); }
  /// Elements `range` of this rank's shard of the step's gradient, after the last round.
  Span<std::byte> gradient_shard(int unit, Range range) { return gradients_->shard(unit, range); }

  // The end of a step, after the last round: start_gradient_gather(), norm(), and then update() or discard_gradients().

  /// Collective. If every rank updates whole units (stage 0), starts to gather their gradients on all ranks.
  void start_gradient_gather() { gradients_->start_gather(); }
  /// Norm of the step's gradient, unclipped. Collective; gradients are gathered meanwhile.
  Norm norm();
  /// Waits for the gradients, clips them, updates what this rank keeps of every unit, and starts the all-gather of what
  /// other ranks need of it. The norm must be finite.
  void update(const Norm& norm, const optim::Optimizer::Step& step);
  /// In place of update(): waits for the gradients, and leaves all states as they are.
  void discard_gradients() { gradients_->wait_for_gather(); }

  /// The batch's summed loss, without dropout. Collective where parameters are shared out: every rank calls it as often.
  double evaluate(const model::MicroBatch& batch);

 private:
  const void* acquire(int unit) override;
  void release(int unit) override;
  float* gradient(int unit) override;
  void gradient_complete(int unit) override;
  void update_unit(int unit, const optim::Optimizer::Step& step);

  EngineOptions options_;
  std::vector<model::UnitLayout> units_;
  AccumulationPlan accumulation_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<ShardLayout> layouts_;
  States states_;
  std::unique_ptr<Gradients> gradients_;  // null where nothing is trained
  std::unique_ptr<Parameters> parameters_;
  Span<float> widened_;  // a part of a gradient that is kept in 16 bits
  double loss_scale_ = 1;
  std::size_t groups_ = 1;
  std::unique_ptr<model::Model> model_;
};

}  // namespace shoal::zero
