// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "app/setup/assembly.hpp"
#include "app/setup/resolve.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/io/nvme_tier.hpp"
#include "shoal/pipeline/runner.hpp"
#include "shoal/sync/synchroniser.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

/// The engine, the synchroniser and their memory.
struct Assembly {
  /// Collective.
  Assembly(const ResolvedRun& resolved, comm::World& world);
  sync::NodeGroups groups;
  device::DeviceMemory memory;
  std::unique_ptr<io::NvmeTier> nvme;  ///< null if nothing waits on a disk
  zero::Engine engine;
  pipeline::Runner runner;
  std::optional<sync::Synchroniser> synchroniser;  ///< if sync.kind is not every_step
};

}  // namespace shoal::app
