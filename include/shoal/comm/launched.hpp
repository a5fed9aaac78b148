// SPDX-License-Identifier: Apache-2.0
// Finds worlds that are not what the launcher started. If launcher and MPI library do not speak the same protocol, every
// task believes that it is the only rank of a world of its own.
#pragma once

namespace shoal::comm {

/// What a world must be as large as.
enum class Expected {
  launched,   ///< what a launcher started, if one did: for commands that one process of a job may run by itself
  whole_job,  ///< that, or without a launcher the tasks of the job
};

/// bad_input() if the environment's variables say that there are more tasks than the `ranks` of the world. A world may be
/// larger: it spans all components of a heterogeneous job, each of which has its own number of tasks.
void check_launched(int ranks, Expected expected);

}  // namespace shoal::comm
