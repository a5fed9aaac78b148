// SPDX-License-Identifier: Apache-2.0
// Starts the runs of a study (job_commands.hpp), on this machine or in a batch system, and follows them to their ends.
//
// [Note: submitted once] A study may be killed at any time, also after the batch system has taken a job and before the job's
// id is in the results file. So a point is first noted as `submitting`, and its job has a name of its own, which is the same
// whenever this study is started. A study that goes on asks for jobs of these names before it submits any:
// - a job that is in the queue or runs is found;
// - a job that has ended has left a log;
// - without either, the point was not submitted, or the program that submits it (sbatch, qsub) still runs. So the question
//   is repeated for some time before the point is submitted again.
#pragma once

#include <string>
#include <vector>

#include "app/study/batch_queue.hpp"
#include "app/study/job_commands.hpp"
#include "app/study/request.hpp"
#include "app/study/results.hpp"

namespace shoal::app {

class StudyJobs {
 public:
  StudyJobs(const StudyRequest& request, StudyResults& results);

  /// The command that starts the point's run, for a person to read.
  std::string command_text(std::size_t point) const { return commands_.command_text(point); }

  /// Writes deck and script. If the point has an earlier run that it does not continue, moves that to NAME.before-N.
  void prepare(std::size_t point);
  /// Starts the prepared run on this machine, and waits for its end. Its results are collected.
  void run(std::size_t point);
  /// Submits the prepared run. Its job is in the results file when this returns. fail() with the batch system's words.
  void submit(std::size_t point);
  /// Asks the batch system for jobs of points that are to be submitted or whose submission was not noted to its end, by the
  /// names of their jobs: points whose jobs are there are queued then. The results of a point that was being submitted, and
  /// whose job has begun and is not there any more, are collected. Returns the points of both kinds. fail() if the batch
  /// system does not answer.
  std::vector<std::size_t> find(const std::vector<std::size_t>& points);
  /// Asks the batch system for the jobs of all queued points, and collects the results of those that have ended. A batch
  /// system that does not answer is asked again next time; fail() after several times.
  void refresh();

 private:
  void collect_ended(std::size_t point, const std::string& how);

  const StudyRequest& request_;
  StudyResults& results_;
  JobCommands commands_;
  BatchQueue queue_;
  int unanswered_ = 0;
};

}  // namespace shoal::app
