// SPDX-License-Identifier: Apache-2.0
// Signals that ask a run to end: SIGINT (Ctrl-C), SIGTERM (the batch system's time limit), SIGUSR1 (its warning before
// that).
#pragma once

#include <string>

namespace shoal::app {

/// While an object of this class exists, the first of these signals is only recorded, and the run asks for it between two
/// steps. A second signal ends the process at once by its default action. A launcher may deliver one signal several times:
/// signals within a fifth of a second count as one.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// The first signal that this rank received; 0: none so far.
  static int first();
  /// Returns true if hydra, MPICH's launcher, has forwarded it: hydra may then lose the exit code (comm/departure.hpp).
  static bool by_hydra();
};

/// "SIGTERM".
std::string signal_name(int signal);

}  // namespace shoal::app
