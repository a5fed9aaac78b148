// SPDX-License-Identifier: Apache-2.0
// summary.json, the file for scripts that a run leaves in its output directory, and the paths of the others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "made_steps.hpp"
#include "setup.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/io/lineage.hpp"

namespace shoal::app {

/// File names in output.dir.
inline constexpr const char* metrics_name = "metrics.jsonl";
inline constexpr const char* summary_name = "summary.json";
inline constexpr const char* trace_name = "trace.h5";
inline constexpr const char* checkpoints_name = "checkpoints";  // unless checkpoint.dir is set
inline constexpr const char* aborted_name = "aborted.txt";      // comm/abort.hpp

/// Paths that follow from the options. trace_path: for a run that begins at step 0.
std::filesystem::path checkpoint_directory(const config::Options& options);
std::filesystem::path trace_path(const config::Options& options);
/// The trace of a run that was resumed after first_step steps: the first free name of trace_from_20.h5, trace_from_20_2.h5,
/// ..., since earlier parts of the trace are kept. For first_step = 0 trace_path(), if that is free.
std::filesystem::path next_trace_part(const config::Options& options, std::int64_t first_step);

/// The events and results of a run, for summary.json and the end of the log.
struct History {
  explicit History(bool is_rank_0) : steps(is_rank_0) {}

  MadeSteps steps;
  std::vector<std::pair<std::int64_t, double>> validation;
  std::map<std::string, comm::Traffic> traffic;  ///< this rank's, of the steps without evaluations and checkpoints
  std::uint64_t device_waits = 0;                ///< how often the host waited for the device in those steps
  std::string stopped_by;                        ///< reason for stopping before the last step; empty: none
  io::Lineage lineage;                           ///< of the run
  std::filesystem::path resumed_from;            ///< the checkpoint; empty: the run began at step 0
  bool updated_before = false;                   ///< an update was applied before that checkpoint
};

struct Verdict;  // verdict.hpp

/// Collective: gathers memory and traffic of all ranks. Rank 0 writes the file; it is complete or absent.
void write_summary(comm::World& world, const Setup& setup, const Memory& memory, const History& history,
                   const Verdict& verdict, const std::string& params_checksum);

/// Largest resident set of this process so far, and the current one, in bytes.
std::uint64_t peak_rss_bytes();
std::uint64_t current_rss_bytes();

double median(std::vector<double> values);

}  // namespace shoal::app
