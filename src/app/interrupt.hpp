// SPDX-License-Identifier: Apache-2.0
// Signals that ask a run to end: SIGINT (Ctrl-C), SIGTERM (the batch system's time limit), SIGUSR1 and SIGUSR2 (its warning
// before that).
#pragma once

#include <string>

#include "shoal/comm/communicator.hpp"

namespace shoal::app {

/// While an object of this class exists, the first of these signals is only recorded, and the run asks for it between two
/// steps. A second signal ends the process at once by its default action. A launcher or a batch system may deliver one
/// signal several times, on several ways: signals within a second count as one.
///
/// To be created before MPI starts, so that a signal in that time is not lost. MPICH installs a handler of its own for
/// SIGUSR1, which would call this one with wrong arguments, so SIGUSR1 is blocked until mpi_has_started().
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  static void mpi_has_started();
  /// For a command that has nothing to save: restores the default actions. A signal that was recorded ends the process now.
  static void stop_recording();

  /// The first signal that this rank received; 0: none so far.
  static int first();
  /// Collective: a signal that some rank received; 0: none so far. Ranks wait for each other here, and afterwards by_hydra()
  /// is the same on all of them.
  static int first_of_all(comm::Communicator& ranks);
  /// Returns true if hydra, MPICH's launcher, has forwarded one to a rank: hydra may then lose the exit code
  /// (comm/departure.hpp). It forwards to all ranks, but some may have had the signal before, if a batch system signals all
  /// processes of a job.
  static bool by_hydra();
};

/// "SIGTERM".
std::string signal_name(int signal);

}  // namespace shoal::app
