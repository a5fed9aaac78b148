// SPDX-License-Identifier: Apache-2.0
// For tests that run on several ranks: the World that their main() (mpi_main.cpp) has started.
#pragma once

#include "shoal/comm/world.hpp"

namespace shoal::test {

/// The World, with the groups of default options.
comm::World& world();

}  // namespace shoal::test
