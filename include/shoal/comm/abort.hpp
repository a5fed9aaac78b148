// SPDX-License-Identifier: Apache-2.0
// Ends all ranks at once, when one of them cannot go on and the others may not know of it.
#pragma once

#include <string>

namespace shoal::comm {

/// From now on abort_all() of this process leaves a line in this file, for job scripts: a launcher may take long to see that
/// a run has ended (srun waits KillWait seconds, 30 by default, for ranks that do not answer and for nodes without power).
/// A file that exists already is left as it is.
void note_aborts_in(const std::string& file);
/// Returns true if the file is such a note. False if it cannot be read.
bool is_note_of_abort(const std::string& file);

/// Ends all ranks at once with this exit code, without waiting for them (MPI_Abort). Prints nothing.
[[noreturn]] void abort_all(int exit_code);

}  // namespace shoal::comm
