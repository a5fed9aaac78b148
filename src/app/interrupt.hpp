// SPDX-License-Identifier: Apache-2.0
// Signals that ask a run to end: SIGINT (Ctrl-C), SIGTERM (the batch system's time limit), SIGUSR1 (its warning before).
#pragma once

#include <string>

namespace shoal::app {

/// As long as one lives, the first of these signals is only kept, for whoever asks between two steps, and a second one ends
/// the process at once by the signal's default action. Copies of one signal that a launcher sends by several ways count as
/// one: those that come within a fifth of a second.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// The signal that this rank got first; 0: none so far.
  static int first();
  /// Whether hydra, MPICH's launcher, has forwarded it: then it may lose the exit code (comm/departure.hpp).
  static bool by_hydra();
};

/// "SIGTERM".
std::string signal_name(int signal);

}  // namespace shoal::app
