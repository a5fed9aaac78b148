// SPDX-License-Identifier: Apache-2.0
// What scripts read in the output directory: metrics.jsonl while the run goes on, summary.json at its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "setup.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/io/lineage.hpp"
#include "shoal/io/text_file.hpp"
#include "trainer.hpp"

namespace shoal::app {

/// What stands in output.dir.
inline constexpr const char* metrics_name = "metrics.jsonl";
inline constexpr const char* summary_name = "summary.json";
inline constexpr const char* trace_name = "trace.h5";

/// Paths that follow from the options. trace_path: that of a run from its first step on.
std::filesystem::path checkpoint_directory(const config::Options& options);
std::filesystem::path trace_path(const config::Options& options);
/// Of a run that goes on after so many steps: a name that is not taken, trace_from_20.h5, trace_from_20_2.h5, ...: earlier
/// parts stay. From step 0 on the whole run's name, where that is free.
std::filesystem::path next_trace_part(const config::Options& options, std::int64_t first_step);

/// The lines of metrics.jsonl up to a step. bad_input() names the first that is none (FILE:LINE); an unfinished last line is
/// left out.
std::vector<std::string> lines_until(const std::filesystem::path& metrics, std::int64_t last_step);

/// A line a step, written by rank 0 as soon as the step is done.
class Metrics {
 public:
  /// Steps after first_step that an earlier run wrote are removed: this run does them again.
  Metrics(comm::World& world, const std::filesystem::path& directory, std::int64_t first_step);
  void write(const StepReport& report, double tokens, std::optional<double> validation);
  /// fail() where metrics.jsonl is no longer the file that is written: somebody removed it.
  void require_there() const;

 private:
  io::LineFile file_;  // on rank 0
};

/// What summary.json is made of.
struct History {
  std::vector<StepReport> steps;
  std::vector<std::pair<std::int64_t, double>> validation;
  std::map<std::string, comm::Traffic> traffic;  ///< this rank's, of the steps alone
  std::string stopped_by;                        ///< what stopped the run before its last step; empty: nothing
  io::Lineage lineage;                           ///< of the run
  std::filesystem::path resumed_from;            ///< the checkpoint that it went on from; empty: none
};

struct Verdict;  // verdict.hpp

/// Collective: gathers what every rank knows (memory, traffic); rank 0 writes the file complete-or-absent.
void write_summary(comm::World& world, const Setup& setup, const Memory& memory, const History& history,
                   const Verdict& verdict, const std::string& params_checksum);

/// Largest resident set of this process so far, and the present one, bytes.
std::uint64_t peak_rss_bytes();
std::uint64_t current_rss_bytes();

double median(std::vector<double> values);

}  // namespace shoal::app
