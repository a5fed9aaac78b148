// SPDX-License-Identifier: Apache-2.0
// Measures what the links between nodes take at once after a pause (plan::Link::credit_bytes).
#pragma once

#include "shoal/comm/world.hpp"
#include "shoal/plan/network.hpp"

namespace shoal::app {

/// across: the fitted link. Nodes exchange messages in a ring, after a pause and right after such an exchange; the
/// difference in time is what the pause has earned. The shortest times count, because other work only adds to them.
/// Collective.
double link_credit_bytes(comm::World& world, const plan::Link& across);

}  // namespace shoal::app
