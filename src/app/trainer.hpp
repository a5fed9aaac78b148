// SPDX-License-Identifier: Apache-2.0
// One optimizer step, from tokens to updated parameters, and the synchronization of nodes after it. The order of a step is
// in Trainer::update().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adascaling.hpp"
#include "nodes.hpp"
#include "setup.hpp"
#include "shoal/data/loader.hpp"
#include "shoal/optim/loss_scale.hpp"
#include "shoal/optim/schedule.hpp"
#include "shoal/pipeline/runner.hpp"

namespace shoal::app {

class Trainer final : private pipeline::Stage {
 public:
  Trainer(const Setup& setup, comm::World& world, Machine& machine);

  /// Runs step t, counted from 0, and the synchronization of nodes that is due after it. Returns the reports that all ranks
  /// now have: this step's; or, if nodes train locally, none until they exchange reports, and then all since the last
  /// exchange. They do so when they synchronize (every train.log_every steps if the schedule has no synchronization), and
  /// after every step with at_boundary: an evaluation, a checkpoint or the end of the run follows. want_stop is called on
  /// every rank in every step; with the reports all ranks learn if any rank wants to stop.
  std::vector<StepReport> step(std::int64_t t, const std::function<bool()>& want_stop, bool at_boundary);

  /// Mean loss over the validation split (its first eval_batches global batches) after `steps` steps; bitwise the same on
  /// any number of ranks. If nodes have different parameters, their mean is evaluated.
  double evaluate(std::int64_t steps);

  /// Returns true if the run is complete after `steps` steps. With AdaScale train.steps counts steps of the small batch, so
  /// fewer steps are enough; there are never more than train.steps, even if updates were skipped.
  bool done(std::int64_t steps) const;

  /// State for checkpoints in addition to the tensors and the step's number: skipped updates, AdaScale's averages, the loss
  /// scale. Collective.
  std::map<std::string, double> numbers() const;
  /// Continues after `steps` steps with the numbers of a checkpoint.
  void restore(std::int64_t steps, const std::map<std::string, double>& all);

 private:
  StepReport update(std::int64_t t, const std::function<bool()>& want_stop);
  void synchronise(std::int64_t t);
  bool reports_after(std::int64_t step) const;
  void load(std::size_t m, model::MicroBatch& batch);
  int nodes_summing_gradients(std::int64_t t) const;
  void prepare_gradients(int nodes, std::int64_t updates_before, const optim::Rates& rates);
  void forward(int part, std::size_t turn, const pipeline::Borders& borders) override;
  void backward(int part, std::size_t turn, const pipeline::Borders& borders) override;
  std::size_t micro_batch(std::size_t turn) const override { return index_in_step(true, turn); }
  int first_unit(int part) const override;
  std::size_t index_in_step(bool over_nodes, std::size_t turn) const;
  comm::Communicator& in_step() const;
  void read_micro_batches(int nodes);
  void sum_gradients_over_nodes();
  double all_reduce_losses(int nodes, bool& stop);
  std::string broken(double loss, const zero::Norm& norm);
  bool updates(StepReport& report, const zero::Norm& norm);
  double scale_rate(StepReport& report, std::int64_t updates_before, const zero::Norm& norm);

  const config::Options& options_;
  comm::World& world_;
  const sync::NodeGroups& groups_;
  zero::Engine& engine_;
  sync::Synchroniser* synchroniser_;  // null if all ranks reduce gradients at every step
  data::SampleOrder order_;
  data::Loader loader_;
  const data::Samples* validation_;
  pipeline::Runner& runner_;
  std::int64_t step_ = 0;                    // being computed, from 0
  std::optional<optim::LossScaler> scaler_;  // fp16
  std::optional<AdaScaling> adascale_;
  std::int64_t skipped_ = 0;   // steps without an update; the schedule and the optimizer do not count them
  std::size_t micro_batches_;  // of a step, over the ranks of a node
  // All-reduce buffer: the loss of each micro-batch, then (AdaScale) the squared norm of each micro-batch's gradient, then
  // whether a rank wants to stop. Each of the first two is non-zero on one rank only.
  std::vector<double> per_micro_batch_;
  bool node_wants_stop_ = false;         // a rank of this node wanted to, as of the last step
  std::vector<StepReport> unexchanged_;  // this node's reports since the last exchange
};

}  // namespace shoal::app
