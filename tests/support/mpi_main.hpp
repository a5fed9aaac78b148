// SPDX-License-Identifier: Apache-2.0
// For tests that run on several ranks: the World that their main() (mpi_main.cpp) has started.
#pragma once

#include "shoal/comm/world.hpp"
#include "support/messages.hpp"

namespace shoal::test {

/// The World, with the groups of comm_options().
comm::World& world();

namespace detail {
bool add_rank_condition(const char* suite, const char* test, bool (*holds)(int ranks));
}

}  // namespace shoal::test

/// For a test that only some numbers of ranks can run; on other numbers it is left out. It is not skipped, because a skip
/// means that something could not be tested, and this test runs on another number of ranks (RANKS in CMakeLists.txt).
///   SHOAL_RUN_IF(GroupsOf, NodesOfTwoRanks, ranks % 2 == 0);
#define SHOAL_RUN_IF(suite, name, condition)                   \
  [[maybe_unused]] static const bool suite##_##name##_run_if = \
      shoal::test::detail::add_rank_condition(#suite, #name, [](int ranks) { return condition; })
