// SPDX-License-Identifier: Apache-2.0
// Starts the runs of a study: its scripts, and the commands of the batch system. Every point has in DIRECTORY/jobs its deck
// (NAME.cfg), its script (NAME.sh) and its log (NAME.log). The deck has all options, so that the script can also be started
// by hand.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "request.hpp"
#include "results.hpp"

namespace shoal::app {

class StudyJobs {
 public:
  StudyJobs(const StudyRequest& request, StudyResults& results);

  /// The command that starts the point's run, for a person to read.
  std::string command_text(std::size_t point) const;

  /// Writes deck and script. If the point has an earlier run that it does not continue, moves that to NAME.before-N.
  void prepare(std::size_t point);
  /// Starts the prepared run on this machine, and waits for its end. Its results are collected.
  void run(std::size_t point);
  /// Submits the prepared run. Its job is in the results file when this returns. fail() with the batch system's words.
  void submit(std::size_t point);
  /// Asks the batch system for the jobs of all queued points, and collects the results of those that have ended. A batch
  /// system that does not answer is asked again next time; fail() after several times.
  void refresh();

 private:
  std::filesystem::path file(std::size_t point, const char* ending) const;
  std::vector<std::string> command(std::size_t point) const;
  std::string script(std::size_t point) const;
  /// The queued points whose jobs have left the queue; nothing if the batch system does not answer.
  std::optional<std::vector<std::size_t>> ended();
  void collect_ended(std::size_t point, const std::string& how);

  const StudyRequest& request_;
  StudyResults& results_;
  std::string program_;
  std::string no_answer_;
  int unanswered_ = 0;
};

}  // namespace shoal::app
