// SPDX-License-Identifier: Apache-2.0
// Ranks agree on errors before any of them goes on: what fails on one rank strands no other.
#pragma once

#include <exception>
#include <optional>

#include "shoal/base/error.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal::io {

/// Collective. When any rank brings an error, all throw that of the lowest such rank, marked as seen everywhere.
void agree(comm::Communicator& group, const std::optional<Error>& mine);

/// Does `work` on every rank, then agrees. `work` must not communicate in a way that an error on one rank would upset.
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

/// The same for work that rank 0 does alone.
template <typename Work>
void together_by_0(comm::Communicator& group, Work&& work) {
  together(group, [&] {
    if (group.rank() == 0) work();
  });
}

}  // namespace shoal::io
