// SPDX-License-Identifier: Apache-2.0
// What a run's checkpoint holds: which tensors, and what is said beside them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "setup.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::app {

/// Options that the rest of the trajectory depends on, by name: kept as text beside the tensors.
std::map<std::string, std::string> shaping_options(const config::Options& options);

/// Numbers beside the tensors, of nodes that train apart.
inline constexpr const char* nodes_number = "sync/nodes";    // that wrote the checkpoint
inline constexpr const char* outer_number = "sync/outer";    // 1: it has the outer update's state
inline constexpr const char* common_number = "sync/common";  // 1: it has what nodes had in common when they met last
inline constexpr const char* pushed_number = "sync/push";    // 1: it has an exchange under way
inline constexpr const char* mean_number = "sync/mean";      // 1: it has a mean under way
inline constexpr const char* lost_number = "sync/lost";      // 1: it has what quantization took from means
/// And a text: how quantized gradients were cut when their residuals were written; absent where there are none.
inline constexpr const char* residuals_text = "zero/residuals";

/// Whether nodes warmed up until then: a checkpoint is that of ranks which are always in step.
bool was_in_step(const sync::Synchroniser& synchroniser, std::int64_t steps);

/// Parameters and moments of this rank: its shards, or all that it keeps.
std::vector<NamedSlice> model_slices(zero::Engine& engine, zero::States::Which which);
/// What a checkpoint after so many steps holds, every element listed by one rank.
std::vector<NamedSlice> slices_to_write(Machine& machine, std::int64_t steps);
/// The same where ranks are always in step, for the memory that a copy of it takes.
std::vector<NamedSlice> slices_to_copy(zero::Engine& engine);

/// What is said beside the tensors after so many steps. numbers: further state, by name.
io::CheckpointState state_to_write(const config::Options& options, const Machine& machine, std::int64_t steps,
                                   const std::map<std::string, double>& numbers);

}  // namespace shoal::app
