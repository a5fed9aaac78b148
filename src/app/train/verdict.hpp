// SPDX-License-Identifier: Apache-2.0
// How a run ended: one line for people, numbers for scripts.
#pragma once

#include <cstddef>
#include <string>

#include "app/setup/resolve.hpp"
#include "app/train/history.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/memory.hpp"

namespace shoal::app {

/// The results of the steps of this run (not of those before it was resumed), for the last line of the log and summary.json.
struct Verdict {
  Exit exit = Exit::done;           ///< the program's exit code
  bool stopped_early = false;       ///< steps are left to do
  bool ok = true;                   ///< all steps are done, an update was made (here or before), and memory was as planned
  std::size_t steps_made = 0;       ///< in this run
  std::size_t updates_skipped = 0;  ///< steps among these whose update a node skipped
  std::string text;                 ///< one line; begins with "OK" if ok
};

/// Equal on all ranks, except that each judges its own memory. `exit`: why the loop over the steps ended.
Verdict judge(const ResolvedRun& resolved, const Memory& memory, const History& history, Exit exit);

/// How far the run is: "7 of 40 steps"; with AdaScale "2 steps, worth 9.0 small-batch steps (5 were asked for)"; "0 steps".
std::string position_text(const config::Options& options, const History& history);

}  // namespace shoal::app
