// SPDX-License-Identifier: Apache-2.0
// One optimizer step, from tokens to published parameters, on one page.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "setup.hpp"
#include "shoal/data/loader.hpp"
#include "shoal/optim/schedule.hpp"

namespace shoal::app {

/// What one step was like; the same on all ranks but for the seconds.
struct StepReport {
  std::int64_t step = 0;  ///< from 1
  double loss = 0;        ///< mean over the global batch, before the update
  double norm = 0;        ///< of the gradient, before clipping
  double learning_rate = 0;
  double seconds = 0;
  std::string broken;  ///< what was not finite, in words; empty: all was, and the update was made
  bool stop = false;   ///< rank 0 wants the run to end after this step
};

class Trainer {
 public:
  Trainer(const Setup& setup, comm::World& world, zero::Engine& engine);

  /// Update number t, counted from 0. want_stop is asked on rank 0; all ranks hear its answer.
  StepReport step(std::int64_t t, const std::function<bool()>& want_stop);

  /// Mean loss over the validation split (its first eval_batches global batches), the same on any number of ranks.
  double evaluate();

  std::size_t steps_per_epoch() const { return order_.steps_per_epoch(); }

 private:
  model::MicroBatch load(std::int64_t t, std::size_t m);
  double share_losses(std::size_t predictions, bool& stop);
  std::string broken(double loss, const zero::Norm& norm);

  const config::Options& options_;
  comm::World& world_;
  zero::Engine& engine_;
  data::SampleOrder order_;
  data::Loader loader_;
  const data::Samples* validation_;
  std::vector<double> losses_;  // by micro-batch of the step; the last entry: does rank 0 want to stop?
};

/// Mean loss over the first `most` samples (0: all), in batches of `micro`. Batches are dealt to the ranks in turn, and
/// added in their own order.
double evaluate(comm::Communicator& group, zero::Engine& engine, const data::Samples& samples, std::size_t micro,
                std::size_t block_size, std::size_t most);

}  // namespace shoal::app
