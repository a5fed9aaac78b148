// SPDX-License-Identifier: Apache-2.0
// Which cores the ranks may use, for the head of the log: a wrong binding is the most common reason for slow runs.
#pragma once

#include <string>

#include "shoal/comm/world.hpp"

namespace shoal::app {

/// One line: "rank 0: 0-3, rank 1: 4-7, each within a NUMA domain (the same on all 2 nodes)", or "not bound: 2 ranks share
/// 0-7". Of a node's ranks at most the first four are listed. Collective; the text is the first node's.
std::string describe_binding(comm::World& world);

}  // namespace shoal::app
