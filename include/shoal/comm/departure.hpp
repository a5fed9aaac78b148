// SPDX-License-Identifier: Apache-2.0
// How a process that the launcher's signal has asked to end tells the launcher its exit code.
//
// [Note: hydra and signals] MPICH's launcher forwards SIGINT, SIGTERM and SIGUSR1 to the ranks. From then on its proxy takes
// a rank's exit code for 0, whatever it is (seen: 4.0.2, always with one rank, now and then with several), unless it finds
// the process ended when it looks, which it does as a rank's connection to it closes. MPI_Finalize closes the connection
// before the process has ended. So a rank whose code must not be lost ends without MPI_Finalize, and leaves a helper behind
// that keeps the connection open until the rank has certainly ended. Otherwise the batch system would take a run that was
// interrupted for one that is done. Without a forwarded signal the same would be an error in the proxy's eyes, with code 1.
#pragma once

namespace shoal::comm {

/// Whether this process number, a signal's sender, is hydra's proxy on this node. May be called in a signal's handler.
bool is_hydra(int process) noexcept;

/// Leaves the helper behind, for less than half a second; is_hydra() was true. May be called in a signal's handler.
void leave_helper() noexcept;

/// Ends this process with the code, as the note says: is_hydra() was true of the signal's sender. All ranks do this, and
/// have nothing to tell each other any more.
[[noreturn]] void depart(int exit_code);

}  // namespace shoal::comm
