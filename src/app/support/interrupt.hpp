// SPDX-License-Identifier: Apache-2.0
// Signals that ask a run to end: SIGINT (Ctrl-C), SIGTERM (the batch system's time limit), SIGUSR1 and SIGUSR2 (its warning
// before that), SIGPIPE (nobody reads what the run prints any more), SIGHUP (its terminal is gone).
#pragma once

#include <string>
#include <thread>

#include "shoal/comm/communicator.hpp"

namespace shoal::app {

/// While an object of this class exists, the first of these signals is only recorded, and the run asks for it between two
/// steps. A second signal ends the process at once by its default action. A launcher or a batch system may deliver one
/// signal several times, on several ways: signals within a second count as one. SIGPIPE is never a second one. SIGHUP stays
/// ignored in a process that was started so (nohup).
///
/// A thread of its own runs the handlers, and all other threads block these signals, because a thread that computes may have
/// no valid stack pointer ([Note: borrowed stack pointers], base/alternate_stack.hpp). So this object is to be created in
/// main() before any other thread: threads inherit what is blocked. Should a library have started one earlier, the handler
/// may run there, too.
///
/// MPICH installs a handler of its own for SIGUSR1 when MPI starts, which would call this one with wrong arguments, so that
/// signal waits until mpi_has_started().
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  static void mpi_has_started();
  /// For a command that has nothing to save: restores the default actions. A signal that was recorded ends the process now.
  static void stop_recording();

  /// The launcher is gone: counts as SIGHUP, but never as a second signal. Returns false if signals are not recorded. Any
  /// thread may call it.
  static bool hang_up();

  /// The first signal that this rank received; 0: none so far. To be called from the main thread.
  static int first();
  /// Collective: a signal that some rank received; 0: none so far.
  static int first_of_all(comm::Communicator& ranks);

 private:
  std::thread listener_;
};

/// "SIGTERM".
std::string signal_name(int signal);

}  // namespace shoal::app
