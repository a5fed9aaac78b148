// SPDX-License-Identifier: Apache-2.0
// MPICH's mpiexec (hydra; also called mpirun), which prints what the ranks print.
#pragma once

#include <optional>

#include "shoal/comm/process.hpp"

namespace shoal::comm {

/// The mpiexec whose proxy is this process, as launcher() finds it; empty if that was started in another way, or from
/// another machine.
std::optional<ProcessId> mpiexec_of(const ProcessId& proxy);

/// Returns true if the mpiexec that started this rank prints to a terminal. False if it runs on another machine.
bool mpiexec_prints_to_terminal();

}  // namespace shoal::comm
