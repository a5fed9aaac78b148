// SPDX-License-Identifier: Apache-2.0
// A model together with its states on this rank, and what a training step consists of: forward and backward of
// micro-batches, reduction of gradients, norm, update, all-gather of parameters. app/train/trainer.cpp and
// zero/end_of_step.hpp have their order.
//
// A rank computes the model as a whole, or parts of it. Each part is a model::Model of its own, with slots for the turns
// that are between forward and backward. What crosses the borders of parts is the caller's (model::Flow).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/state.hpp"
#include "shoal/model/model.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/zero/engine_options.hpp"
#include "shoal/zero/norm.hpp"
#include "shoal/zero/rank_groups.hpp"
#include "shoal/zero/states.hpp"

namespace shoal::zero {

struct Bucket;

class Engine {
 public:
  /// memory: one that only counts (plan/memory.hpp), or one that has reserved what was counted with the same arguments.
  Engine(const EngineOptions& options, const RankGroups& groups, Memory& memory);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  States& states();
  model::Model& model(std::size_t part = 0);
  const std::vector<model::UnitLayout>& units() const;
  /// The matrix products of all parts (model::Model::products()).
  std::vector<kernels::Product> products() const;
  /// Lets the kernels of all parts prepare what they need (model::Model::prepare()). A line that several parts return is
  /// there once.
  std::vector<std::string> prepare();
  /// Number of the first unit of a part.
  int first_unit(std::size_t part) const;
  const AccumulationPlan& accumulation() const;
  const std::vector<Bucket>& buckets() const;

  /// Sets parameters to random initial values. Collective.
  void initialize(std::uint64_t seed);
  /// Rounds the master parameters and starts their all-gather, after slices of states() were written. Collective.
  void rebuild_parameters();
  /// Waits for the all-gather that publish() or rebuild_parameters() has started. It must be called before slices of
  /// states() are written, since the all-gather reads them, and before whole parameters are read.
  void wait_for_parameters();

  /// Calls write(), which changes masters in slices of states(): waits for that all-gather before, and rebuilds parameters
  /// after. Collective.
  template <typename Write>
  void change_masters(const Write& write) {
    wait_for_parameters();
    write();
    rebuild_parameters();
  }

  /// Error-feedback residuals of quantized gradients (zero.quant_feedback), for checkpoints; see GradientQuantState.
  std::vector<NamedSlice> residual_slices() const;
  std::string residual_layout() const;

  /// Multiplies the loss, and so every gradient, by this factor from now on. Norms and updates are those of unscaled losses.
  /// Residuals of quantized gradients are multiplied with them.
  void scale_losses(double factor);
  /// To be called when residuals have been read: they are those of losses multiplied by this factor.
  void read_residuals_of(double loss_scale);
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
  Span<std::byte> gradient_shard(int unit, Range range);

  // The end of a step, after finish_gradients() (zero/end_of_step.hpp): start_gradient_gather(), measure(), norm(), and then
  // update() and publish(), or discard_gradients().

  /// Collective. If every rank updates whole units (stage 0), starts to gather their gradients on all ranks.
  void start_gradient_gather();
  /// Enqueues the sums for the norm, and waits for the device: in a step the host waits only here. From now on the numbers
  /// of the step can be read; gradients are gathered meanwhile.
  void measure();
  /// Summed loss of this rank's micro-batch of a turn.
  double loss(std::size_t turn) const;
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
  void discard_gradients();

  /// Enqueues a part's forward pass without dropout, of which nothing is kept. Collective if parameters are sharded: every
  /// rank must then call it the same number of times. No turn may be between forward and backward.
  void evaluate(std::size_t part, const model::MicroBatch& batch, const model::Flow& flow);
  /// The summed loss of the batch that the head's part has evaluated last; the host waits for it.
  double evaluated_loss();
  /// Both for a model in one part.
  double evaluate(const model::MicroBatch& batch);

 private:
  struct Members;
  std::unique_ptr<Members> members_;
};

}  // namespace shoal::zero
