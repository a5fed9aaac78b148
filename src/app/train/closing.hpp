// SPDX-License-Identifier: Apache-2.0
// The closing summary of a run's log.
#pragma once

#include "app/setup/resolve.hpp"
#include "app/train/history.hpp"
#include "app/train/saves.hpp"
#include "app/train/verdict.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::app {

/// Prints, on rank 0, why the run ended, its losses, speed, memory and checkpoints, and what to do next. The last line is
/// the verdict.
void print_closing(comm::World& world, const ResolvedRun& resolved, const Memory& memory, const History& history,
                   const Saves& saves, const Verdict& verdict);

}  // namespace shoal::app
