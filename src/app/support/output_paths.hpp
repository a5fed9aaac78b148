// SPDX-License-Identifier: Apache-2.0
// The names and paths of the files that a run writes.
#pragma once

#include <cstdint>
#include <filesystem>

#include "shoal/config/options.hpp"

namespace shoal::app {

/// File names in output.dir.
inline constexpr const char* metrics_name = "metrics.jsonl";
inline constexpr const char* summary_name = "summary.json";
inline constexpr const char* log_name = "log.txt";
inline constexpr const char* trace_name = "trace.h5";
inline constexpr const char* checkpoints_name = "checkpoints";  // unless checkpoint.dir is set
inline constexpr const char* aborted_name = "aborted.txt";      // comm/abort.hpp

/// Paths that follow from the options. trace_path: for a run that begins at step 0.
std::filesystem::path checkpoint_directory(const config::Options& options);
std::filesystem::path trace_path(const config::Options& options);
/// The trace of a run that was resumed after first_step steps: the first free name of trace_from_20.h5, trace_from_20_2.h5,
/// ..., since earlier parts of the trace are kept. For first_step = 0 trace_path(), if that is free.
std::filesystem::path next_trace_part(const config::Options& options, std::int64_t first_step);

}  // namespace shoal::app
