// SPDX-License-Identifier: Apache-2.0
// Whom a run will send arenas to, by its options.
#pragma once

#include "app/setup/resolve.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::app {

/// Collective. Makes the groups of the run, and connects the ranks of each that will exchange arenas (comm/connect.hpp).
/// Does nothing if the library that sends them is MPI.
void connect_groups(comm::World& world, const ResolvedRun& resolved);

}  // namespace shoal::app
