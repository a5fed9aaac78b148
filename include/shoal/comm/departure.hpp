// SPDX-License-Identifier: Apache-2.0
// How a process that was asked to end by a signal through the launcher passes its exit code to the launcher.
//
// [Note: hydra and signals] MPICH's launcher forwards SIGINT, SIGTERM and SIGUSR1 to the ranks. After that, its proxy takes
// the exit code of a rank to be 0, whatever it is (observed with 4.0.2: always with one rank, sometimes with several),
// unless the process has already ended when the proxy checks. The proxy checks when the rank's connection to it closes, and
// MPI_Finalize closes it before the process has ended. So a rank whose exit code must not be lost ends without MPI_Finalize,
// and leaves a helper process that keeps the connection open until the rank has certainly ended. Otherwise the batch system
// would take an interrupted run for a finished one. If no signal was forwarded, the proxy would treat such an end as an
// error, with exit code 1.
#pragma once

namespace shoal::comm {

/// Returns true if this process number, the sender of a signal, is hydra's proxy on this node. Safe in a signal handler.
bool is_hydra(int process) noexcept;

/// Starts the helper process, which ends within half a second. Requires that is_hydra() was true. Safe in a signal handler.
void leave_helper() noexcept;

/// Ends this process with the code as described in the note. Requires that is_hydra() was true for the sender of the signal,
/// and that all ranks end like this, with no communication left between them.
[[noreturn]] void depart(int exit_code);

}  // namespace shoal::comm
