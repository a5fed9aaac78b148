// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shoal/config/options.hpp"

namespace shoal::config {

/// What a sentence about an option that schedule.kind does not use adds for one who took linear for a decay; empty
/// elsewhere.
std::string no_decay_hint(const std::string& option, const optim::ScheduleOptions& schedule);

/// Fills what a DeepSpeed configuration leaves to the ranks and the model: batch.micro, batch.global, zero.prefetch_units.
/// Returns what contradicts.
std::vector<std::string> follow_deepspeed(Invocation& invocation, int ranks);

/// Contradictions within schedule and with train and optimizer; total_steps is set where the kind needs it;
/// total_name: the option that it was taken from.
std::vector<std::string> schedule_problems(const Options& options, const std::string& total_name);

/// Contradictions within zero, and with what quantized messages do not go with.
std::vector<std::string> zero_problems(const Options& options, int ranks);

/// Contradictions within sync, and with what nodes that are seldom in step do not go with.
std::vector<std::string> sync_problems(const Options& options, int ranks);

}  // namespace shoal::config
