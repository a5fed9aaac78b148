// SPDX-License-Identifier: Apache-2.0
// The contents of a run's checkpoint: tensors, texts and numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "app/setup/assembly.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::app {

/// What a checkpoint says of the vocabulary; empty if the data have none.
std::string identity_of(const data::Vocabulary& vocabulary);
/// False if the data or the checkpoint have none.
bool has_another_vocabulary(const io::CheckpointState& state, const data::Vocabulary& vocabulary);
/// Returns true if an update was applied before this checkpoint, on any node.
bool has_updates(const io::CheckpointState& state);

/// The options that determine the losses of the following steps, by name; a checkpoint keeps them as texts.
std::map<std::string, std::string> shaping_options(const config::Options& options);

/// Name of a text: into which parts quantized gradients were divided when their residuals were written. Absent if there are
/// none.
inline constexpr const char* residuals_text = "zero/residuals";
/// Name of a text: a hash of the data's vocabulary. Ids of tokens mean something else with another one.
inline constexpr const char* vocabulary_text = "data/vocabulary";
/// Name of a text for people: "4 ranks on 2 nodes", those of the run that wrote the file.
inline constexpr const char* ranks_text = "ranks";
/// Name of a number, in fp16.
inline constexpr const char* loss_scale_number = "loss_scale/scale";
/// Name of a number; of several nodes each has its own. One node alone leaves it out if it is 0.
inline constexpr const char* skipped_updates_number = "skipped_updates";

struct CheckpointContents {
  io::CheckpointState state;
  std::vector<NamedSlice> slices;  ///< every element is listed by one rank
};
/// Returns the contents of a checkpoint after `steps` steps. numbers: further state, by name.
CheckpointContents contents_to_write(const config::Options& options, Assembly& assembly, std::int64_t steps,
                                     const std::map<std::string, double>& numbers);

}  // namespace shoal::app
