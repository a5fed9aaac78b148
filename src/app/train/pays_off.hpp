// SPDX-License-Identifier: Apache-2.0
// Estimates before the first step if local training of the nodes can be faster than synchronizing at every step.
#pragma once

#include "app/setup/assembly.hpp"
#include "app/setup/resolve.hpp"

namespace shoal::app {

/// Prints on rank 0 how nodes synchronize and if that is worth it. Collective: if there are several nodes, it measures the
/// links between them with messages of up to 1 MiB. peak_gflops: per rank.
///
/// The rule is that of FairScale's guide to SlowMo: the exchange of gradients at every step is hidden behind backward, an
/// exchange of parameters every H steps is not. So it is worth it if t_all_reduce (1 - 1/H) > t_backward, with H = 2 for
/// stochastic gradient push. Here t_backward is the time at the processor's measured peak, a lower bound: if the inequality
/// is false with it, it is false.
void print_pays_off(const ResolvedRun& resolved, comm::World& world, const Assembly& assembly, double peak_gflops);

}  // namespace shoal::app
