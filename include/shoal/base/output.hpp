// SPDX-License-Identifier: Apache-2.0
// What a run says. All of it goes through here, so that the run's log file has the lines that the terminal has.
#pragma once

#include <string>
#include <string_view>

namespace shoal::output {

/// Writes whole lines to standard output, and to the log. To be called by the main thread: it waits for a reader who is slow
/// (`| less`), and beats (base/heartbeat.hpp) meanwhile, so that nobody takes the rank for one that hangs.
void print(std::string_view lines);

/// Writes whole lines to standard error, and to the log. May be called by any thread, also when the log's file system hangs:
/// then it waits a second for it, and no longer.
void complain(std::string_view lines);

/// Writes to standard output alone: what is drawn over, as a line of progress.
void draw(std::string_view words);

/// Keeps the lines of this process from now on, for the log, whose place is not yet known.
void keep();

/// From now on appends to this file, which exists, first what was kept. A process that has kept nothing opens it when it has
/// something to say: ranks other than 0 say little. No error ends the run: if the file cannot be written, the log ends
/// there; a process that has kept lines says so, once. An empty name ends the log.
void log_to(const std::string& file);

}  // namespace shoal::output
