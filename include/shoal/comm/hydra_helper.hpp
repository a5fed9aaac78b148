// SPDX-License-Identifier: Apache-2.0
// A small process beside each rank that MPICH's launcher, hydra, has started.
//
// [Note: hydra and signals] Hydra is `mpiexec` and a proxy on each node, which starts the ranks. Two of its properties would
// cost a user the exit code or the work of a run that a signal ends (observed with 4.0.2):
// - Once the proxy has forwarded a signal, it takes the exit code of a rank to be 0, unless it finds that the rank has ended
//   while an output of some rank is still open. A rank that ends closes its outputs before it has an exit code, so with one
//   rank the code is always lost, with several often; also in a crash. A batch system would take a stopped or a crashed
//   run for a finished one.
// - In `mpiexec ... | tee log`, Ctrl-C ends tee, too. The next line that mpiexec prints ends it by SIGPIPE, and then the
//   proxies kill the ranks before these have written a checkpoint. The same happens if tee is killed, and in
//   `mpiexec ... | head`.
// So the helper keeps the rank's outputs open until the rank has certainly ended, then closes one of them, at which the
// proxy looks which ranks have ended, and the other when the proxy has done so.
// And if mpiexec on this machine prints into a pipe, the helper holds that pipe open for reading, but does not read. Only
// when all other readers have gone it reads what is printed, so that mpiexec never waits for a reader, and sends the rank
// SIGPIPE, so that the run ends with a checkpoint. It then lives until mpiexec has ended.
#pragma once

namespace shoal::comm {

/// Starts the helper if hydra started this process; it ends by itself after this process and mpiexec. To be called at the
/// beginning of main(), before MPI and before any thread: it copies the process (fork). The helper's command line, in the
/// copy's argv, says what it is.
void start_hydra_helper(int argc, char** argv);

}  // namespace shoal::comm
