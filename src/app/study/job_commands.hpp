// SPDX-License-Identifier: Apache-2.0
// What starts the run of a study's point. Every point has in DIRECTORY/jobs its deck (NAME.cfg), its script (NAME.sh) and
// its log (NAME.log). The deck has all options, so that the script can also be started by hand.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/study/request.hpp"
#include "app/study/results.hpp"

namespace shoal::app {

class JobCommands {
 public:
  /// request and results must outlive this object.
  JobCommands(const StudyRequest& request, const StudyResults& results);

  std::filesystem::path deck(std::size_t point) const { return file(point, ".cfg"); }
  std::filesystem::path script(std::size_t point) const { return file(point, ".sh"); }
  std::filesystem::path log(std::size_t point) const { return file(point, ".log"); }
  /// The same whenever this study is started, and different from those of other studies.
  std::string job_name(std::size_t point) const;

  std::string script_text(std::size_t point) const;
  /// The words that start the script: on this machine, or as a job.
  std::vector<std::string> command(std::size_t point) const;
  /// The same for a person to read.
  std::string command_text(std::size_t point) const;
  /// The words before a command of this launcher, so that it does not see the variables of the study's own job or launcher.
  static std::vector<std::string> clean_environment(Launcher launcher);

 private:
  std::filesystem::path file(std::size_t point, const char* ending) const;

  const StudyRequest& request_;
  const StudyResults& results_;
  std::string program_;
};

}  // namespace shoal::app
