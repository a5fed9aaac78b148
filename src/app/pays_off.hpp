// SPDX-License-Identifier: Apache-2.0
// Whether nodes that train apart can be faster than nodes in step, said before the first step.
#pragma once

#include "setup.hpp"

namespace shoal::app {

/// Prints, on rank 0, how nodes agree and whether that can pay off. Collective: where there are several nodes it measures
/// the links between them (a MiB at most). peak_gflops: of one rank.
///
/// The rule is that of FairScale's guide to SlowMo: an exchange of gradients at every step hides behind backward, one of
/// parameters every H steps does not; so it pays off where t_all_reduce (1 - 1/H) > t_backward, H = 2 for stochastic
/// gradient push. Here t_backward is what it would be at the processor's measured peak: where the rule fails with it, it
/// fails.
void print_pays_off(const Setup& setup, comm::World& world, const Machine& machine, double peak_gflops);

}  // namespace shoal::app
