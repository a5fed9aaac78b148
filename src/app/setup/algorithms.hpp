// SPDX-License-Identifier: Apache-2.0
// What is chosen and made before the first step. All ranks compute in the same way, so that a run has one trajectory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/kernels/products.hpp"

namespace shoal::app {

/// Collective, before the first product. Rank 0 chooses an algorithm for each product, and all ranks use its choice. Fails
/// on all ranks if one of them cannot. Where there is nothing to choose, only an empty message is sent.
void agree_on_algorithms(comm::Communicator& group, const std::vector<kernels::Product>& products);

/// Collective. Calls prepare(), a model's, on every rank. Rank 0 prints the lines that it returns on the first rank that has
/// any, so that they stand there once.
void prepare_kernels(comm::Communicator& group, const std::function<std::vector<std::string>()>& prepare);

}  // namespace shoal::app
