// SPDX-License-Identifier: Apache-2.0
// Asks the batch system for jobs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "app/study/request.hpp"
#include "app/support/command_output.hpp"

namespace shoal::app {

/// Runs a command of the batch system, with its errors in its output.
CommandOutput answer_of(const std::vector<std::string>& command);
/// The last line of an output that is not empty.
std::string last_line(std::string_view output);

/// Functions return nothing if the batch system does not answer; problem() then has its words.
class BatchQueue {
 public:
  /// Not Launcher::local.
  explicit BatchQueue(Launcher launcher) : launcher_(launcher) {}

  /// Those of these jobs that have left the queue.
  std::optional<std::set<std::string>> ended(const std::set<std::string>& jobs);
  /// The jobs with these names that are in the queue or run: name and id. One job has a name.
  std::optional<std::map<std::string, std::string>> named(const std::set<std::string>& names);
  const std::string& problem() const { return problem_; }

 private:
  /// This user's jobs, in SLURM: id and name.
  std::optional<std::map<std::string, std::string>> jobs_of_slurm();
  std::optional<bool> ended_in_pbs(const std::string& job);
  bool answers(const char* program, const CommandOutput& output, bool is_answer);

  Launcher launcher_;
  std::string problem_;
};

}  // namespace shoal::app
