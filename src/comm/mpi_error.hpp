// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

namespace shoal::comm {

/// fail() with the MPI library's own words unless `code` is MPI_SUCCESS. Communicators return errors (MPI_ERRORS_RETURN).
void check(int code, const char* call);

/// Waits for a request by testing; false if it takes longer than so many seconds (0: no bound).
bool finish(MPI_Request request, double bound_s = 0);

}  // namespace shoal::comm
