// SPDX-License-Identifier: Apache-2.0
// The checkpoint that a command's argument means: a file, or the newest complete one of a run.
#pragma once

#include <filesystem>
#include <string>

#include "shoal/comm/world.hpp"

namespace shoal::app {

/// Returns a file's path as it is. A directory is the output.dir of a run, or the directory of its checkpoints, and stands
/// for the newest complete checkpoint of the run. A line on stderr says which one that is, and one for each newer file that
/// is passed over says why. bad_input() if there is none. For one rank.
std::filesystem::path checkpoint_of(const std::string& argument);

/// The same, collective: rank 0 looks.
std::filesystem::path checkpoint_of(comm::World& world, const std::string& argument);

}  // namespace shoal::app
