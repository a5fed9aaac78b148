// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/shared_text.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/operations/mpi_error.hpp"
#include "shoal/base/error.hpp"

namespace shoal::comm {

std::string text_of_rank_0(const std::string& name, const std::function<std::string()>& read) {
  int rank = 0, size = 1;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  const std::uint64_t mine = std::hash<std::string>()(name);
  std::vector<std::uint64_t> names(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(&mine, 1, MPI_UINT64_T, names.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD, &request), "MPI_Iallgather");
  finish(request);
  const auto other = std::find_if(names.begin(), names.end(), [&](std::uint64_t hash) { return hash != names.front(); });
  require_input(other == names.end(), "rank ", other - names.begin(),
                " was started with another file name than rank 0 (here: ", name, "); all ranks need the same command line");

  std::string text = rank == 0 ? read() : std::string();
  std::uint64_t bytes = text.size();
  check(MPI_Ibcast(&bytes, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD, &request), "MPI_Ibcast");
  finish(request);
  text.resize(bytes);
  check(MPI_Ibcast(text.data(), static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD, &request), "MPI_Ibcast");
  finish(request);
  return text;
}

}  // namespace shoal::comm
