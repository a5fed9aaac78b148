// SPDX-License-Identifier: Apache-2.0
// The tensors of which a checkpoint consists.
#pragma once

#include <vector>

#include "shoal/base/state.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

/// Parameters and moments of this rank: its shards (own), or all that it keeps (kept).
std::vector<NamedSlice> model_slices(zero::Engine& engine, zero::States::Which which);
/// The slices of a checkpoint with sync.kind = every_step; checkpoint.async needs memory for a copy of them.
std::vector<NamedSlice> slices_to_copy(zero::Engine& engine);

}  // namespace shoal::app
