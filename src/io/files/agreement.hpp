// SPDX-License-Identifier: Apache-2.0
// Ranks agree on errors before any of them goes on, so that an error on one rank does not leave the others waiting.
#pragma once

#include <exception>
#include <optional>

#include "shoal/base/error.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal::io {

/// Collective. If any rank has an error, all ranks throw the error of the lowest such rank, marked as seen everywhere.
void agree(comm::Communicator& group, const std::optional<Error>& mine);

/// Collective. Runs `work` on every rank, then agrees on its errors. If `work` communicates, an error in it on one rank must
/// not leave others waiting.
template <typename Work>
void together(comm::Communicator& group, Work&& work) {
  std::optional<Error> mine;
  try {
    work();
  } catch (const Error& error) {
    mine = error;
  } catch (const std::exception& error) {
    mine = Error(Exit::failed, Seen::here, error.what());
  }
  agree(group, mine);
}

/// Collective. The same for work that rank 0 does alone.
template <typename Work>
void together_by_0(comm::Communicator& group, Work&& work) {
  together(group, [&] {
    if (group.rank() == 0) work();
  });
}

}  // namespace shoal::io
