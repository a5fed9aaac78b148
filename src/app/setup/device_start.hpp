// SPDX-License-Identifier: Apache-2.0
// The start of a command that computes on a GPU: who takes which, and whether its memory is enough. On other devices these
// functions do nothing.
#pragma once

#include <string>
#include <vector>

#include "app/setup/resolve.hpp"
#include "app/support/text_table.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::app {

/// Collective, once. Gives each rank its GPU (device/unit.hpp). Fails on all ranks if one has none, or if two have the same
/// and SHOAL_SHARE_GPU is not 1. Rank 0 warns if GPUs differ, or the libraries that compute on them.
void open_device(comm::World& world);

/// The warning that another rank's libraries differ from rank 0's; empty if none do. ranks, libraries: of each rank, its
/// name and the versions.
std::string difference_of_libraries(const std::vector<std::string>& ranks, const std::vector<std::string>& libraries);

/// Collective. Connects the ranks first (connections.hpp), so that what the library takes that sends arenas is known. Fails
/// if the planned arenas are larger than the memory that is free on some rank's GPU. To be called after kernels::Runtime is
/// made, and before arenas are reserved.
void require_room(comm::World& world, const ResolvedRun& resolved);

/// Rows of the banner; none if arenas are memory of the host.
TextRows device_rows(comm::World& world);

}  // namespace shoal::app
