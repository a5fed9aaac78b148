// SPDX-License-Identifier: Apache-2.0
// A library for LD_PRELOAD in which a rank's MPI does not return any more, but spins, as one that waits for a message that
// never comes. Environment variables:
//   SHOAL_STUCK_RANK   the rank (PMI_RANK) that gets stuck
//   SHOAL_STUCK_FROM   a file: from the moment when it exists, the rank gets stuck in its next test of a message; it then
//                      removes the file
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

void stay_if_it_is_time() {
  static const char* const rank = std::getenv("PMI_RANK");
  static const char* const stuck = std::getenv("SHOAL_STUCK_RANK");
  static const char* const from = std::getenv("SHOAL_STUCK_FROM");
  if (rank == nullptr || stuck == nullptr || from == nullptr || std::strcmp(rank, stuck) != 0) return;
  if (unlink(from) != 0) return;
  for (volatile bool for_ever = true; for_ever;) {
  }
}

}  // namespace

extern "C" int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  stay_if_it_is_time();
  return PMPI_Testall(count, requests, flag, statuses);
}
