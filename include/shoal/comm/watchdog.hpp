// SPDX-License-Identifier: Apache-2.0
// Names a rank that hangs or has died, and ends the run, so that the other ranks do not wait for ever.
//
// [Note: who is alive] A rank counts as alive if it has shown a sign of life within comm.timeout. Signs of life are:
// - heartbeats (base/heartbeat.hpp): every kernel, every pause of a wait for messages, every part of a file, and every new
//   phase is one. While the host waits for a GPU, only what the GPU finishes is one, or that it waits for messages of NCCL;
// - processor time that is used while the main thread is absent from MPI (base/mpi_free.hpp), so that one kernel may take
//   longer than the timeout. At other times processor time does not count: an MPI library that hangs in a collective spins.
// So a rank may compute for any time. A rank that hangs in a system call, a lock or a library's collective, or that was
// stopped, is not alive.
//
// Who detects this:
// - The other ranks of the machine read a rank's heartbeat (base/activity.hpp). One of them asks all ranks what they are
// doing, and reports it (src/comm/hang/inquiry.hpp).
// - A rank's own watchdog, a thread, detects that its rank hangs. It reports that if nobody else does, or if all ranks of
// the machine hang. It also answers other ranks while the rank is absent from MPI.
// - The watchdogs of the same node detect that a process has ended.
// - The lowest of the ranks that have waited for longer than half the timeout asks all other ranks, on all nodes. Ranks that
//   wait or compute answer. A rank that does not answer for the timeout was stopped, or its node or network has failed; it
//   is reported likewise.
#pragma once

#include <functional>
#include <memory>

namespace shoal::comm {

class World;

/// Runs a thread on each rank as long as the object exists. Every second (or every quarter of a timeout below 4 s) the
/// thread checks that the processes of the node's other ranks are running (if they are in the same name space of processes),
/// that the launcher's process that started this rank is running, and that its own rank is alive. If not, one rank prints
/// which ranks those are, with their hosts, and what each rank is doing, and ends the process with exit code 1; the launcher
/// then ends the others. Must be created and destroyed by the main thread.
///
/// If only the launcher's process is gone and all ranks are on this machine, they can still work together: then each rank's
/// thread calls hang_up(), and if that returns true, the run has the timeout to end by itself.
class Watchdog {
 public:
  Watchdog(World& world, double timeout_s, std::function<bool()> hang_up = nullptr);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::comm
