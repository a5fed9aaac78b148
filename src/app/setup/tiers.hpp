// SPDX-License-Identifier: Apache-2.0
// The tiers in which states of a run wait ([Note: tiers] in shoal/base/memory.hpp).
#pragma once

#include <memory>

#include "app/setup/resolve.hpp"
#include "app/support/text_table.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/nvme_tier.hpp"

namespace shoal::app {

/// The tier on a local disk; null if this rank has nothing there. Collective: if a rank cannot have its file, all fail with
/// its message. Rank 0 prints what users should know of the directory.
std::unique_ptr<io::NvmeTier> open_nvme(comm::World& world, const ResolvedRun& resolved, const Memory& memory);

/// Rows of the banner: what waits where, and what that saves. None if nothing is offloaded.
TextRows tier_rows(const ResolvedRun& resolved, const io::NvmeTier* nvme);

}  // namespace shoal::app
