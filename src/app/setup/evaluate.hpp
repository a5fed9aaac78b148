// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "shoal/comm/world.hpp"
#include "shoal/data/tokens.hpp"
#include "shoal/pipeline/runner.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

/// Mean loss over the first `most` samples (0: all), in batches of `micro`. Batch b goes to data-parallel rank b modulo
/// their number; losses are added in the order of the batches. Collective; all ranks get the mean.
double evaluate(comm::World& world, zero::Engine& engine, pipeline::Runner& runner, const data::Samples& samples,
                std::size_t micro, std::size_t block_size, std::size_t most);

}  // namespace shoal::app
