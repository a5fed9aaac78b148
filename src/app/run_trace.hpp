// SPDX-License-Identifier: Apache-2.0
// The trace of a run: from when events are kept, the file that they go to, and what is marked after every step.
#pragma once

#include <cstdint>
#include <memory>

#include "setup.hpp"
#include "shoal/base/memory.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/trace_file.hpp"

namespace shoal::app {

/// From now on events of trace.level are kept, with times counted from now on all ranks. Collective.
void start_trace(comm::World& world, const config::Options& options);

/// The file that events go to, with the run's options and machine in it; null where trace.level = off. A resumed run gets a
/// part of its own beside those that are there. Collective.
std::unique_ptr<io::TraceFile> open_trace(comm::World& world, const Setup& setup, const Machine& machine,
                                          std::int64_t first_step);

/// What the process takes, as the kernel sees it, and what its arenas hold.
void mark_memory(const Memory& memory);

}  // namespace shoal::app
