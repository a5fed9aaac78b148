// SPDX-License-Identifier: Apache-2.0
// main() of tests that run on several ranks (mpi_main.cpp) gives them what they run on.
#pragma once

#include "shoal/comm/world.hpp"

namespace shoal::test {

/// Started, with groups made of default options.
comm::World& world();

}  // namespace shoal::test
