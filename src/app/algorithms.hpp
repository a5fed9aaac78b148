// SPDX-License-Identifier: Apache-2.0
// What all ranks must do in the same way, so that a run has one trajectory: the algorithms of its matrix products.
#pragma once

#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/kernels/products.hpp"

namespace shoal::app {

/// Collective, before the first product. Rank 0 chooses an algorithm for each product, and all ranks use its choice. Fails
/// on all ranks if one of them cannot. Where there is nothing to choose, only an empty message is sent.
void agree_on_algorithms(comm::Communicator& group, const std::vector<kernels::Product>& products);

}  // namespace shoal::app
