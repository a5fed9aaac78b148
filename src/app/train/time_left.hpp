// SPDX-License-Identifier: Apache-2.0
// What is left of the wall time of the batch job that this process belongs to.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shoal::app {

struct TimeLeft {
  std::optional<double> seconds;  ///< nothing: the job has no limit, or there is a problem
  std::string source;             ///< who said so: "squeue -h -j 17 -o %L"
  std::string problem;            ///< why it is unknown; empty if it is known
};

/// Asks, in this order: the variable SHOAL_JOB_END_TIME (seconds since 1970), for job scripts of other batch systems; SLURM
/// (SLURM_JOB_END_TIME, which newer versions set, else squeue); PBS (qstat). Waits for at most 10 s. To be called on one
/// rank: a batch system must not be asked by thousands of them.
TimeLeft time_left();

/// What squeue -o %L prints: "59:30", "2-03:00:00", "UNLIMITED".
TimeLeft read_squeue(std::string_view answer);
/// What qstat -f prints of a job: Resource_List.walltime, and how much of it is used by resources_used.walltime, which PBS
/// updates only now and then, or by the time since stime.
TimeLeft read_qstat(std::string_view answer, long now);

}  // namespace shoal::app
