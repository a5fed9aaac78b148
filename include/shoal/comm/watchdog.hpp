// SPDX-License-Identifier: Apache-2.0
// Names the rank that stalls or died, and ends the run instead of leaving the others waiting.
//
// [Note: who is alive] A rank is alive that has shown a sign of life within comm.timeout. Signs of life are:
// - beats (base/heartbeat.hpp): every kernel, every test of a wait, every part of a file, every new phase is one;
// - processor time, while the main thread is absent from MPI (base/absence.hpp), so that one kernel may last longer than the
//   timeout. Anywhere else processor time counts for nothing: an MPI library that is stuck in a collective spins.
// So a rank may compute for as long as it likes. One that hangs in a system call, a lock or a library's collective, or that
// was stopped, may not.
//
// Who finds out:
// - The rank's own watchdog, a thread, finds that its rank is stuck. It answers for a rank that is absent from MPI.
// - The watchdogs of the same node find that a process has ended.
// - Ranks of any node that wait for longer than half the timeout ask all others; whoever waits or computes answers, and who
//   is silent for the timeout is named: it was stopped, or its node or its network is gone (src/comm/inquiry.hpp).
#pragma once

#include <memory>

namespace shoal::comm {

class World;

/// A thread per rank, alive as long as the object. Every second (of a timeout below 4 s, every quarter of it) it looks
/// whether the ranks of its node are still running (by process number, where they share a name space of processes), whether
/// the launcher's process that started this rank still is, and whether its own rank is alive. If not, it says so, with the
/// rank, host and phase, and ends the process with exit code 1 (the launcher ends the rest). Made and destroyed by the main
/// thread.
class Watchdog {
 public:
  Watchdog(World& world, double timeout_s);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal::comm
