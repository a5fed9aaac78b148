// SPDX-License-Identifier: Apache-2.0
// The closing summary of a run's log.
#pragma once

#include "output.hpp"
#include "saves.hpp"
#include "setup.hpp"
#include "shoal/comm/world.hpp"
#include "verdict.hpp"

namespace shoal::app {

/// Prints, on rank 0, why the run ended, its losses, speed, memory and checkpoints, and what to do next. The last line is
/// the verdict.
void print_closing(comm::World& world, const Setup& setup, const Memory& memory, const History& history, const Saves& saves,
                   const Verdict& verdict);

}  // namespace shoal::app
