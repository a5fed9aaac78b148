// SPDX-License-Identifier: Apache-2.0
// How a run ended, in a few words for people and in numbers for scripts.
#pragma once

#include <cstddef>
#include <string>

#include "output.hpp"
#include "setup.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/memory.hpp"

namespace shoal::app {

/// What the last line of the log and summary.json say of the steps of this run (not of those before a resumption).
struct Verdict {
  Exit exit = Exit::done;           ///< what the program returns
  bool stopped_early = false;       ///< steps are left to do
  bool ok = true;                   ///< all steps are made, updates among them, in the memory that was planned
  std::size_t steps_made = 0;       ///< in this run
  std::size_t updates_skipped = 0;  ///< of these steps: those whose update some node left out
  std::string text;                 ///< one line; begins with "OK" where ok
};

/// The same on all ranks but for what each knows of its own memory. `exit`: why the loop over the steps ended.
Verdict judge(const Setup& setup, const Memory& memory, const History& history, Exit exit);

/// Where the run is: "step 7 of 40"; with AdaScale both kinds of steps; "its start".
std::string position_text(const config::Options& options, const History& history);

}  // namespace shoal::app
