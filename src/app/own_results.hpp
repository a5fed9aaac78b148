// SPDX-License-Identifier: Apache-2.0
// The program's results in JSON, known by their content: what may be written over where the user said so.
#pragma once

#include "shoal/io/target.hpp"

namespace shoal::app {

io::OwnKind own_summary();     ///< summary.json
io::OwnKind own_metrics();     ///< metrics.jsonl
io::OwnKind own_run_record();  ///< run.json
io::OwnKind own_plan();        ///< plan --json FILE
io::OwnKind own_bench();       ///< bench comm --output FILE

/// For commands that write one result where the user said: require_target(), and that its directory can be written to. What
/// is no file, as /dev/stdout, passes. option: "--json "; empty paths pass.
void require_result(const std::string& option, const std::filesystem::path& file, const io::OwnKind& kind, bool overwrite);

}  // namespace shoal::app
