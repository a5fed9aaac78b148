// SPDX-License-Identifier: Apache-2.0
// The head of a run's log.
#pragma once

#include <string>

#include "app/setup/resolve.hpp"
#include "shoal/base/memory.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/nvme_tier.hpp"

namespace shoal::app {

/// Prints, on the rank that calls it, what the run computes on, the model, the data, the planned memory, and the options
/// that differ from their defaults. binding: describe_binding(). peak_gflops: measured_peak(). most_taken: the memory of the
/// rank that took most, by kind. nvme: null if nothing waits on a disk.
void print_banner(const ResolvedRun& resolved, comm::World& world, const std::string& binding, const Ledger& most_taken,
                  const io::NvmeTier* nvme, double peak_gflops);

}  // namespace shoal::app
