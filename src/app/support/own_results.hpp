// SPDX-License-Identifier: Apache-2.0
// Recognizes the program's own result files by their content. Only these are replaced with --output.overwrite.
#pragma once

#include "shoal/io/target.hpp"

namespace shoal::app {

/// The begin of the first line of a log. It is not printed, so that a copy of what a run prints is no log.
inline constexpr const char* log_mark = "# log of a run of shoal";

io::OwnKind own_summary();     ///< summary.json
io::OwnKind own_metrics();     ///< metrics.jsonl
io::OwnKind own_run_record();  ///< run.json
io::OwnKind own_log();         ///< log.txt
io::OwnKind own_plan();        ///< plan --json FILE
io::OwnKind own_bench();       ///< bench comm --output FILE
io::OwnKind own_tiers();       ///< bench tiers --output FILE
io::OwnKind own_doctor();      ///< doctor --json FILE
io::OwnKind own_simulation();  ///< simulation.json of study --simulate
io::OwnKind own_replay();      ///< about.json of plan --trace-out DIR

/// For commands that write one result to a path of the user's: calls require_target() and checks that the directory is
/// writable. Streams such as /dev/stdout, and empty paths, pass. Messages begin with `option`, as in "--json ".
void require_result(const std::string& option, const std::filesystem::path& file, const io::OwnKind& kind, bool overwrite);

}  // namespace shoal::app
