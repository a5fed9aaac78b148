// SPDX-License-Identifier: Apache-2.0
// The output directory and what scripts read in it: metrics.jsonl while the run goes on, summary.json at its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "setup.hpp"
#include "shoal/comm/communicator.hpp"
#include "trainer.hpp"

namespace shoal::app {

/// output.dir, made by rank 0 where it is absent. It is refused if it holds another run, unless that is resumed or may be
/// overwritten (then its files are removed). Collective: all ranks get the same error.
void open_output(comm::World& world, const config::OutputOptions& output, bool resuming);

/// Paths that follow from the options.
std::filesystem::path checkpoint_directory(const config::Options& options);
std::filesystem::path trace_path(const config::Options& options, std::int64_t first_step);

/// A line a step, written by rank 0 as soon as the step is done.
class Metrics {
 public:
  /// Steps after first_step that an earlier run wrote are removed: this run does them again.
  Metrics(comm::World& world, const std::filesystem::path& directory, std::int64_t first_step);
  void write(const StepReport& report, double tokens, std::optional<double> validation);

 private:
  std::ofstream file_;
};

/// What summary.json is made of.
struct History {
  std::vector<StepReport> steps;
  std::vector<std::pair<std::int64_t, double>> validation;
  std::map<std::string, comm::Traffic> traffic;  ///< this rank's, of the steps alone
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
