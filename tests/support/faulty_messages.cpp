// SPDX-License-Identifier: Apache-2.0
// Two ranks exchange one number, and do wrong what the argument says: nothing, send (they write over a message that is in
// flight), write (over the buffer of one that is to be received), read (before it is said to have arrived), reduce (they
// write to an operand of a sum in flight). Ends with 0 if the numbers are right nevertheless.
#include <mpi.h>

#include <string_view>

namespace {

void finish(MPI_Request request) {
  for (int complete = 0; complete == 0;) MPI_Test(&request, &complete, MPI_STATUS_IGNORE);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view fault = argc > 1 ? argv[1] : "nothing";
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Request request = MPI_REQUEST_NULL;
  float value = rank == 0 ? 1 : 0, sum = 1;
  bool right = true;
  if (rank == 0) {
    MPI_Isend(&value, 1, MPI_FLOAT, 1, 7, MPI_COMM_WORLD, &request);
    if (fault == "send") value = 2;
    finish(request);
  } else {
    MPI_Probe(0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Irecv(&value, 1, MPI_FLOAT, 0, 7, MPI_COMM_WORLD, &request);
    if (fault == "write") value = 2;
    if (fault == "read") right = value == 1;
    finish(request);
    right = right && value == 1;
  }
  MPI_Iallreduce(MPI_IN_PLACE, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  if (fault == "reduce") sum = 3;
  finish(request);
  right = right && sum == 2;
  MPI_Finalize();
  return right ? 0 : 1;
}
