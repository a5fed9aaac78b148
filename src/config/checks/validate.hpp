// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shoal/config/options.hpp"

namespace shoal::config {

/// Returns an addition to the message about an option of decaying schedules, for users who take linear for a decay; empty
/// for other options and kinds.
std::string no_decay_hint(const std::string& option, const optim::ScheduleOptions& schedule);

/// Sets the options of a DeepSpeed configuration that depend on the number of ranks and the model: batch.micro,
/// batch.global, zero.prefetch_units. Returns contradictions.
std::vector<std::string> follow_deepspeed(Invocation& invocation, int ranks);

/// An option that has no effect, whatever its value.
struct IdleOption {
  std::string option;
  std::string with;     ///< the options that make it so: "schedule.kind = OneCycle"
  std::string instead;  ///< what follows in a refusal: "; it needs ..."
};
/// Options of optimizer and schedule that have no effect with the chosen schedule and optimizer, but for those of which the
/// table says so.
std::vector<IdleOption> idle_with_schedule(const Options& options);

/// Contradictions within schedule, and with train and optimizer. total_steps must be set if the kind needs it; total_name:
/// the option from which it was set.
std::vector<std::string> schedule_problems(const Options& options, const std::string& total_name);

/// Contradictions within zero, and options that cannot be combined with quantized messages.
std::vector<std::string> zero_problems(const Options& options, int ranks);

/// Contradictions within offload, and options that cannot be combined with it.
std::vector<std::string> offload_problems(const Options& options);

/// Contradictions within sync, and options that cannot be combined with nodes that train locally.
std::vector<std::string> sync_problems(const Options& options, int ranks);

/// Options that cannot be combined with model.tied_gradient = apart.
std::vector<std::string> tied_problems(const Options& options);

/// Contradictions within pipeline, and options that cannot be combined with pipelines.
std::vector<std::string> pipeline_problems(const Options& options, int ranks);
/// The number of data-parallel ranks: of the pipelines, or of all ranks if pipeline.size does not divide them.
int data_ranks(const Options& options, int ranks);
/// A warning if there are fewer micro-batches than stages: the idle share, and the batch.global that lowers it. Else empty.
std::string short_pipeline(const Options& options, int ranks);

/// A list of faults that cannot be read, and faults that cannot happen in this run.
std::vector<std::string> fault_problems(const Options& options, int ranks);

}  // namespace shoal::config
