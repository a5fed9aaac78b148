// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "shoal/config/deck.hpp"
#include "shoal/config/options.hpp"

namespace shoal::config {

/// Reads the configuration and puts its values over the deck's and under the command line's, which invocation has already.
void apply_deepspeed(const std::string& path, const Deck& deck, Invocation& invocation, std::vector<std::string>& problems);

}  // namespace shoal::config
