// SPDX-License-Identifier: Apache-2.0
// A model together with its states on this rank, and what a training step consists of: forward and backward of
// micro-batches, reduction of gradients, norm, update, all-gather of parameters. app/trainer.cpp and zero/end_of_step.hpp
// have their order.
//
// A rank computes the model as a whole, or parts of it. Each part is a model::Model of its own, with slots for the turns
// that are between forward and backward. What crosses the borders of parts is the caller's (model::Flow).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/model/model.hpp"
#include "shoal/model/part.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/zero/copies.hpp"
#include "shoal/zero/gradients.hpp"
#include "shoal/zero/parameters.hpp"
#include "shoal/zero/passes.hpp"
#include "shoal/zero/slots.hpp"
#include "shoal/zero/states.hpp"

namespace shoal::zero {

struct EngineOptions {
  model::ModelOptions model;  ///< vocab_size must be set
  DType dtype = DType::f32;
  model::Capacity capacity;  ///< training = false: parameters and forward only
  optim::OptimizerOptions optimizer;
  ZeroOptions zero;
  GradientOptions gradients;
  std::size_t micro_batches = 1;  ///< of a step, over all ranks of the group
  double grad_clip = 1.0;         ///< largest norm; 0: gradients are not clipped
  std::uint64_t seed = 1;
  std::vector<model::Part> parts;  ///< of the model, first to last, that this rank computes; none: all units as one part
  /// With parts: the passes of every training step, which forward() and backward() must follow; stage 3 plans the gathers of
  /// a step from it. None: any order that slots allow; each pass gathers for itself.
  StepOrder order = {};
};

/// EngineOptions::parts; if there are none, the one that has all units.
std::vector<model::Part> parts_of(const EngineOptions& options);
/// The order in which a group of so many ranks adds its gradients.
AccumulationPlan accumulation_of(const EngineOptions& options, int ranks);

class Engine final : private model::UnitAccess {
 public:
  /// memory: one that only counts (plan/memory.hpp), or one that has reserved what was counted with the same arguments.
  Engine(const EngineOptions& options, const RankGroups& groups, Memory& memory);

  States& states() { return states_; }
  model::Model& model(std::size_t part = 0) { return *parts_.at(part).model; }
  const std::vector<model::UnitLayout>& units() const { return units_; }
  /// The matrix products of all parts (model::Model::products()).
  std::vector<kernels::Product> products() const;
  /// Lets the kernels of all parts prepare what they need (model::Model::prepare()). A line that several parts return is
  /// there once.
  std::vector<std::string> prepare();
  /// Number of the first unit of a part.
  int first_unit(std::size_t part) const { return static_cast<int>(options_.parts.at(part).units.begin); }
  const AccumulationPlan& accumulation() const { return accumulation_; }
  const std::vector<Bucket>& buckets() const { return gradients_->buckets(); }

  /// Sets parameters to random initial values. Collective.
  void initialize(std::uint64_t seed);
  /// Rounds the master parameters and starts their all-gather, after slices of states() were written. Collective.
  void rebuild_parameters();
  /// Waits for the all-gather that publish() or rebuild_parameters() has started. It must be called before slices of
  /// states() are written, since the all-gather reads them, and before whole parameters are read.
  void wait_for_parameters() { parameters_->wait_for_parameters(); }

  /// Calls write(), which changes masters in slices of states(): waits for that all-gather before, and rebuilds parameters
  /// after. Collective.
  template <typename Write>
  void change_masters(const Write& write) {
    wait_for_parameters();
    write();
    rebuild_parameters();
  }

  /// Error-feedback residuals of quantized gradients (zero.quant_feedback), for checkpoints; see GradientQuantState.
  std::vector<NamedSlice> residual_slices() const {
    return gradients_ ? gradients_->residual_slices() : std::vector<NamedSlice>{};
  }
  std::string residual_layout() const { return gradients_ ? gradients_->residual_layout() : std::string(); }

  /// Multiplies the loss, and so every gradient, by this factor from now on. Norms and updates are those of unscaled losses.
  /// Residuals of quantized gradients are multiplied with them.
  void scale_losses(double factor) {
    if (gradients_ && factor != loss_scale_) gradients_->scale_residuals(factor / loss_scale_);
    loss_scale_ = factor;
  }
  /// To be called when residuals have been read: they are those of losses multiplied by this factor.
  void read_residuals_of(double loss_scale) { loss_scale_ = loss_scale; }
  /// Sets the number of groups of ranks (nodes) over which gradients are averaged from now on. Each group divides its
  /// gradients by this number, and the caller must sum gradient_shard() over the groups before start_gradient_gather(). 1:
  /// this group alone.
  void set_gradient_groups(std::size_t groups);
  /// With Squares::weighted, before a step's first micro-batch and after `updates` > 0 updates: draws a new sample for
  /// square_of_turn() and Norm::square, weighted by the second moments, whose decay is beta2. Collective.
  void weigh_squares(std::int64_t updates, double beta2);
  /// Enqueues the forward pass of a part (its index in EngineOptions::parts) for this rank's micro-batch of a turn
  /// (AccumulationPlan::turns()). The step's gradient is that of the mean over all predictions of all micro-batches. The
  /// turn takes the lowest free slot of the part until its backward pass: one that keeps all activations if `whole`,
  /// otherwise one of the others. The turns of a part come in ascending order, forward and backward; all ranks of the group
  /// make the same calls.
  void forward(std::size_t part, std::size_t turn, const model::MicroBatch& batch, const model::Flow& flow = {},
               bool whole = true);
  /// Enqueues its backward pass.
  void backward(std::size_t part, std::size_t turn, const model::Flow& flow = {});
  /// Called after the step's last micro-batch: waits until each rank has the sum of the step's gradients on its shards.
  /// Collective, with copies of units also over RankGroups::model.
  void finish_gradients();
  /// Elements `range` of this rank's shard of the step's gradient, after finish_gradients().
  Span<std::byte> gradient_shard(int unit, Range range) { return gradients_->shard(unit, range); }

  // The end of a step, after finish_gradients() (zero/end_of_step.hpp): start_gradient_gather(), measure(), norm(), and then
  // update() and publish(), or discard_gradients().

  /// Collective. If every rank updates whole units (stage 0), starts to gather their gradients on all ranks.
  void start_gradient_gather() { gradients_->start_gather(); }
  /// Enqueues the sums for the norm, and waits for the device: in a step the host waits only here. From now on the numbers
  /// of the step can be read; gradients are gathered meanwhile.
  void measure();
  /// Summed loss of this rank's micro-batch of a turn.
  double loss(std::size_t turn) const { return losses_.values()[turn]; }
  /// Sum of squares of that micro-batch's gradient, scaled by 1/M as it contributes to the step's mean gradient.
  double square_of_turn(std::size_t turn) const;
  /// Norm of the step's gradient, unclipped. Collective.
  Norm norm();
  /// Waits until the gradients are gathered, clips them, and updates what this rank keeps of every unit. The norm must be
  /// finite.
  void update(const Norm& norm, const optim::Optimizer::Step& step);
  /// Collective, after update(): starts the all-gather of updated parameters (stages 1 and 2).
  void publish();
  /// In place of update() and publish(): waits until the gradients are gathered, and leaves all states as they are.
  /// Residuals of quantized gradients begin at zero again.
  void discard_gradients() {
    gradients_->wait_for_gather();
    gradients_->reset_residuals();
  }

  /// Enqueues a part's forward pass without dropout, of which nothing is kept. Collective if parameters are sharded: every
  /// rank must then call it the same number of times. No turn may be between forward and backward.
  void evaluate(std::size_t part, const model::MicroBatch& batch, const model::Flow& flow);
  /// The summed loss of the batch that the head's part has evaluated last; the host waits for it.
  double evaluated_loss();
  /// Both for a model in one part.
  double evaluate(const model::MicroBatch& batch);

 private:
  const void* acquire(int unit) override;
  void release(int unit) override;
  float* gradient(int unit) override;
  void gradient_complete(int unit) override;
  void begin_pass(const PassOfPart& pass);
  void start_all_gather();
  void update_unit(int unit, const optim::Optimizer::Step& step);

  struct PartOfModel {
    std::unique_ptr<model::Model> model;
    Slots slots;
  };
  model::Capacity capacity_of(const model::Part& part) const;

  EngineOptions options_;
  std::vector<model::UnitLayout> units_;
  AccumulationPlan accumulation_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<ShardLayout> layouts_;
  States states_;
  Copies copies_;
  Passes passes_;                         // whose orders of uses Parameters has
  std::unique_ptr<Gradients> gradients_;  // null if nothing is trained
  std::unique_ptr<Parameters> parameters_;
  Span<float> widened_;                        // in fp32, a part of a gradient that is kept in 16 bits
  device::Cells losses_;                       // of this rank's micro-batches in a step; an evaluation uses the first one
  std::optional<device::PieceMemory> pieces_;  // of files and initial values
  double loss_scale_ = 1;
  std::size_t groups_ = 1;
  std::vector<PartOfModel> parts_;  // as EngineOptions::parts
};

}  // namespace shoal::zero
