// SPDX-License-Identifier: Apache-2.0
// summary.json, the file for scripts that a run leaves in its output directory.
#pragma once

#include <string>
#include <vector>

#include "app/setup/resolve.hpp"
#include "app/train/history.hpp"
#include "app/train/settled.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::app {

struct Verdict;  // verdict.hpp

/// Collective: gathers memory and traffic of all ranks. Rank 0 writes the file; it is complete or absent. earlier: on rank
/// 0, the steps of the parts before this one.
void write_summary(comm::World& world, const ResolvedRun& resolved, const Memory& memory, const History& history,
                   const std::vector<StepTime>& earlier, const Verdict& verdict, const std::string& params_checksum);

}  // namespace shoal::app
