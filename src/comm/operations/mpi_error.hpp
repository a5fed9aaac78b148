// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

namespace shoal::comm {

/// fail() with the MPI library's message unless `code` is MPI_SUCCESS. Requires MPI_ERRORS_RETURN on the communicator.
void check(int code, const char* call);

/// Waits for a request by testing it. Returns false if it is not complete after bound_s seconds (0: no limit).
bool finish(MPI_Request request, double bound_s = 0);

}  // namespace shoal::comm
