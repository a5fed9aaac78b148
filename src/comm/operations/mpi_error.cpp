// SPDX-License-Identifier: Apache-2.0
#include "comm/operations/mpi_error.hpp"

#include <array>
#include <chrono>
#include <string_view>

#include "shoal/base/error.hpp"
#include "shoal/comm/wait.hpp"

namespace shoal::comm {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> message{};
  int length = 0;
  if (MPI_Error_string(code, message.data(), &length) != MPI_SUCCESS) fail(call, ": MPI error ", code);
  fail(call, ": ", std::string_view(message.data(), static_cast<std::size_t>(length)));
}

bool finish(MPI_Request request, double bound_s) {
  const auto begin = std::chrono::steady_clock::now();
  Backoff backoff;
  for (int complete = 0;; backoff.pause()) {
    check(MPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
    if (complete != 0) return true;
    if (bound_s > 0 && std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(bound_s)) return false;
  }
}

}  // namespace shoal::comm
