// SPDX-License-Identifier: Apache-2.0
// What this rank does after the last backward pass of a step: from the gradients of its micro-batches to updated parameters,
// and a report.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "app/setup/assembly.hpp"
#include "app/setup/resolve.hpp"
#include "app/train/micro_batches.hpp"
#include "app/train/step_numbers.hpp"
#include "app/train/step_report.hpp"
#include "app/train/updates.hpp"
#include "shoal/zero/end_of_step.hpp"

namespace shoal::app {

class EndOfStepExecutor {
 public:
  /// All arguments must outlive this object.
  EndOfStepExecutor(const ResolvedRun& resolved, comm::World& world, Assembly& assembly, const MicroBatches& computed,
                    Updates& updates);

  /// Before the first micro-batch of step t, counted from 0. nodes: how many sum their gradients in it. want_stop is called
  /// at the step's end.
  void begin_step(std::int64_t t, int nodes, std::function<bool()> want_stop);

  /// All calls must be executed, in the order of zero::end_of_step. If update skips the step, publish does nothing.
  void execute(zero::EndCall call);

  /// Of the step that ended last.
  const StepReport& report() const { return report_; }
  /// A rank of this node wanted the run to end, as of the step that ended last.
  bool node_wants_stop() const { return node_wants_stop_; }

 private:
  void finish_gradients();
  void start_gradient_gather();
  void exchange_losses();
  void exchange_norm();
  void update();
  comm::Communicator& in_step() const;
  void read_micro_batches();
  std::string broken();

  const config::Options& options_;
  comm::World& world_;
  const sync::NodeGroups& groups_;
  zero::Engine& engine_;
  sync::Synchroniser* synchroniser_;
  const MicroBatches& computed_;
  Updates& updates_;
  std::size_t micro_batches_;  // of a step, over the ranks of a node

  // The current step, or the last one.
  int nodes_ = 1;
  std::function<bool()> want_stop_;
  StepNumbers numbers_;
  zero::Norm norm_;
  StepReport report_;
  bool node_wants_stop_ = false;
};

}  // namespace shoal::app
