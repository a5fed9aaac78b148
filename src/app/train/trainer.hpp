// SPDX-License-Identifier: Apache-2.0
// One optimizer step, from tokens to updated parameters, and the synchronization of nodes after it. The order of a step is
// in Trainer::update() and, after the last backward pass, in zero::end_of_step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "app/setup/assembly.hpp"
#include "app/setup/resolve.hpp"
#include "app/train/end_of_step_executor.hpp"
#include "app/train/micro_batches.hpp"
#include "app/train/step_report.hpp"
#include "app/train/updates.hpp"

namespace shoal::app {

class Trainer {
 public:
  /// All arguments must outlive this object.
  Trainer(const ResolvedRun& resolved, comm::World& world, Assembly& assembly);

  /// Runs step t, counted from 0, and the synchronization of nodes that is due after it. Returns the reports that all ranks
  /// now have: this step's; or, if nodes train locally, none until they exchange reports, and then all since the last
  /// exchange. They do so when they synchronize, and before an evaluation, a checkpoint or the end of the run (at_boundary).
  /// If the schedule has no synchronization, they do so every train.log_every steps, but at least every 10. want_stop is
  /// called on every rank in every step; from the reports all ranks learn whether any of them wants to stop.
  std::vector<StepReport> step(std::int64_t t, const std::function<bool()>& want_stop, bool at_boundary);

  /// Mean loss over the validation split (its first eval_batches global batches) after `steps` steps; bitwise the same on
  /// any number of ranks. If nodes have different parameters, their mean is evaluated.
  double evaluate(std::int64_t steps);

  /// Returns true if the run is complete after `steps` steps.
  bool done(std::int64_t steps) const { return updates_.done(steps); }

  /// State for checkpoints in addition to the tensors and the step's number: skipped updates, AdaScale's averages, the loss
  /// scale. Collective.
  std::map<std::string, double> numbers() const;
  /// Continues after `steps` steps with the numbers of a checkpoint.
  void restore(std::int64_t steps, const std::map<std::string, double>& all);

 private:
  StepReport update(std::int64_t t, const std::function<bool()>& want_stop);
  void synchronise(std::int64_t t);
  bool reports_after(std::int64_t step) const;
  int nodes_summing_gradients(std::int64_t t) const;

  const config::Options& options_;
  comm::World& world_;
  const sync::NodeGroups& groups_;
  zero::Engine& engine_;
  sync::Synchroniser* synchroniser_;  // null if all ranks reduce gradients at every step
  MicroBatches computed_;             // by this rank
  const data::Samples* validation_;
  pipeline::Runner& runner_;
  Updates updates_;
  EndOfStepExecutor end_of_step_;
  std::vector<StepReport> unexchanged_;  // this node's reports since the last exchange
};

}  // namespace shoal::app
