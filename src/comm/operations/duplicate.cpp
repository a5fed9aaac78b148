// SPDX-License-Identifier: Apache-2.0
#include "comm/operations/duplicate.hpp"

#include "comm/operations/mpi_error.hpp"

namespace shoal::comm {

MPI_Comm duplicate(MPI_Comm original) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Comm_idup(original, &copy, &request), "MPI_Comm_idup");
  finish(request);
  check(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return copy;
}

}  // namespace shoal::comm
