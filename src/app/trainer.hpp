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
#include "setup.hpp"
#include "shoal/data/loader.hpp"
#include "shoal/optim/loss_scale.hpp"
#include "shoal/optim/schedule.hpp"

namespace shoal::app {

/// What one step was like; the same on all ranks but for the seconds.
struct StepReport {
  std::int64_t step = 0;       ///< from 1
  double loss = 0;             ///< mean over the global batch, before the update
  double norm = 0;             ///< of the gradient, before clipping
  double learning_rate = 0;    ///< of the update, AdaScale's factor included
  double gain = 0;             ///< AdaScale's: the steps of the small batch that this one counts as; 0: no update, or off
  double effective_steps = 0;  ///< AdaScale's: those made so far
  double seconds = 0;
  double loss_scale = 1;  ///< fp16: what the loss was multiplied by
  bool overflow = false;  ///< fp16: the gradients were too large at this scale, and the update was left out
  std::string broken;     ///< what was not finite for another reason, in words; empty: nothing was
  bool stop = false;      ///< rank 0 wants the run to end after this step
  bool last = false;      ///< all steps are made
};

class Trainer {
 public:
  Trainer(const Setup& setup, comm::World& world, zero::Engine& engine);

  /// Update number t, counted from 0. want_stop is asked on rank 0; all ranks hear its answer.
  StepReport step(std::int64_t t, const std::function<bool()>& want_stop);

  /// Whether train.steps are made after so many steps: with AdaScale they are steps of the small batch, so that fewer will
  /// do (more never, even if some were left out).
  bool done(std::int64_t steps) const;

  /// Mean loss over the validation split (its first eval_batches global batches), the same on any number of ranks.
  double evaluate();

  /// What the next step needs besides the tensors and its number: for checkpoints.
  std::map<std::string, double> numbers() const;
  /// `steps` were made before.
  void restore(std::int64_t steps, const std::map<std::string, double>& numbers);

  std::size_t steps_per_epoch() const { return order_.steps_per_epoch(); }

 private:
  model::MicroBatch load(std::int64_t t, std::size_t m);
  double share_losses(std::size_t predictions, bool& stop);
  std::string broken(double loss, const zero::Norm& norm);
  bool updates(StepReport& report, const zero::Norm& norm);
  double scale_rate(StepReport& report, std::int64_t updates_before, const zero::Norm& norm);

  const config::Options& options_;
  comm::World& world_;
  zero::Engine& engine_;
  data::SampleOrder order_;
  data::Loader loader_;
  const data::Samples* validation_;
  std::optional<optim::LossScaler> scaler_;  // fp16
  std::optional<AdaScaling> adascale_;
  std::int64_t skipped_ = 0;    // steps without an update: schedule and optimizer do not count them
  std::size_t micro_batches_;   // of a step, over all ranks
  std::vector<double> shares_;  // what one rank knows of each: losses, then AdaScale's squares; last: does rank 0 stop?
};

}  // namespace shoal::app
