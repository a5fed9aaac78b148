// SPDX-License-Identifier: Apache-2.0
// When a stage of a pipeline starts the collectives of its gradients and parameters, and when it waits for them: as
// zero::Gradients and zero::Parameters do.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "pipeline_stage.hpp"
#include "recorder.hpp"

namespace shoal::plan {

class StageCollectives {
 public:
  /// Both must outlive this object. overlap: as in zero::GradientOptions.
  StageCollectives(const StageReductions& reductions, bool overlap, Recorder& recorder);

  /// An exchange that is awaited at once.
  void run(const Cost& cost);

  /// The unit's gradient is complete for this turn. The gradients of a round are reduced after its last turn.
  void complete(std::size_t unit, std::size_t turn);
  /// Before new gradients are written to the memory that reductions read.
  void finish_reduces();
  void start_gradient_gather();
  void finish_gradient_gather();

  /// After the update. Those of the update before must have arrived.
  void start_parameter_gather();
  /// Before the unit is used.
  void wait_for_parameters(std::size_t unit) { wait_for_gathered(reductions_.messages.gathered_before_use[unit]); }
  void wait_for_all_parameters() { wait_for_gathered(reductions_.messages.gather_parameters.size()); }

 private:
  std::size_t start(OperationKind kind, const Cost& cost);
  void finish_oldest(std::deque<std::size_t>& operations);
  void start_reduces();
  void start_next_parameters();
  void wait_for_gathered(std::size_t buckets);

  const StageReductions& reductions_;
  bool overlap_;
  Recorder& recorder_;
  std::vector<std::vector<std::size_t>> buckets_;  // by unit: those that can be reduced when it is complete
  std::size_t operations_ = 0;
  std::deque<std::size_t> ready_;                                        // buckets
  std::deque<std::size_t> reducing_, gathering_, gathering_parameters_;  // in flight
  std::size_t parameters_started_ = 0, parameters_finished_ = 0;         // buckets
};

}  // namespace shoal::plan
