// SPDX-License-Identifier: Apache-2.0
// One optimizer step, from tokens to published parameters, on one page.
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

namespace shoal::app {

class Trainer {
 public:
  Trainer(const Setup& setup, comm::World& world, Machine& machine);

  /// Update number t, counted from 0, and then whatever makes nodes agree. Returns the steps of which all ranks know by now:
  /// this one; or, where nodes train apart, none until they meet, and then all since they met before. They meet as the
  /// schedule has it (if it never does, every train.log_every steps), and where `border` says so. want_stop is
  /// asked on every rank in every step; when they meet, all ranks hear whether any rank wants to stop.
  std::vector<StepReport> step(std::int64_t t, const std::function<bool()>& want_stop, bool at_boundary);

  /// Mean loss over the validation split (its first eval_batches global batches) after so many steps, the same on any number
  /// of ranks; of nodes that differ, with the mean of their parameters.
  double evaluate(std::int64_t steps);

  /// Whether train.steps are made after so many steps: with AdaScale they are steps of the small batch, so that fewer will
  /// do (more never, even if some were left out).
  bool done(std::int64_t steps) const;

  /// What the next step needs besides the tensors and its number: for checkpoints. Collective.
  std::map<std::string, double> numbers() const;
  /// `steps` were made before.
  void restore(std::int64_t steps, const std::map<std::string, double>& all);

  std::size_t steps_per_epoch() const { return order_.steps_per_epoch(); }

 private:
  StepReport update(std::int64_t t, const std::function<bool()>& want_stop);
  void synchronise(std::int64_t t);
  bool reports_after(std::int64_t step) const;
  model::MicroBatch load(std::int64_t t, std::size_t m);
  int nodes_sharing_gradients(std::int64_t t) const;
  double all_reduce_losses(int nodes, std::size_t predictions, bool& stop);
  std::string broken(double loss, const zero::Norm& norm);
  bool updates(StepReport& report, const zero::Norm& norm);
  double scale_rate(StepReport& report, std::int64_t updates_before, const zero::Norm& norm);

  const config::Options& options_;
  comm::World& world_;
  const sync::NodeGroups& place_;
  zero::Engine& engine_;
  sync::Synchroniser* synchroniser_;  // null: nodes are always in step
  data::SampleOrder order_;
  data::Loader loader_;
  const data::Samples* validation_;
  std::optional<optim::LossScaler> scaler_;  // fp16
  std::optional<AdaScaling> adascale_;
  std::int64_t skipped_ = 0;   // steps without an update: schedule and optimizer do not count them
  std::size_t micro_batches_;  // of a step, over the ranks of a node
  std::vector<double>
      per_micro_batch_;  // what one rank knows of each: losses, then AdaScale's squares; last: does it want to stop?
  bool node_wants_stop_ = false;         // any of its ranks, as of the last step
  std::vector<StepReport> unexchanged_;  // of this node, since the nodes met
};

}  // namespace shoal::app
