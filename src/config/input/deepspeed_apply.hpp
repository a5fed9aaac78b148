// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "shoal/config/deck.hpp"
#include "shoal/config/options.hpp"

namespace shoal::config {

/// Reads the configuration and sets its options in `invocation`, which already has those of the deck and the command line:
/// it overrides the deck and is overridden by the command line.
void apply_deepspeed(const std::string& path, const Deck& deck, Invocation& invocation, std::vector<std::string>& problems);

}  // namespace shoal::config
