// SPDX-License-Identifier: Apache-2.0
// The trace of a run: starts the recording of events, opens the file for them, and records memory after every step.
#pragma once

#include <cstdint>
#include <memory>

#include "app/setup/assembly.hpp"
#include "app/setup/resolve.hpp"
#include "shoal/base/memory.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/trace_file.hpp"

namespace shoal::app {

/// From now on events of trace.level are recorded; on all ranks their times count from now. Collective.
void start_trace(comm::World& world, const config::Options& options);

/// Creates the file for the events, with the run's options and machine, among it what measured_peak() found; null if
/// trace.level = off. A resumed run gets a file of its own in addition to those that exist. Collective.
std::unique_ptr<io::TraceFile> open_trace(comm::World& world, const ResolvedRun& resolved, const Assembly& assembly,
                                          std::int64_t first_step, double peak_gflops);

/// Returns after how many steps the trace is written: trace.interval, or fewer if a rank's buffer might not hold the events
/// of that many steps. steps: how many the buffer holds now, the first ones of the run. Collective.
std::int64_t steps_between_writes(comm::World& world, const config::TraceOptions& options, std::int64_t steps);

/// Records the memory of the process, as the operating system counts it, and the memory taken from the plan.
void mark_memory(const Memory& memory);

}  // namespace shoal::app
