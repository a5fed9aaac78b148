// SPDX-License-Identifier: Apache-2.0
// The strategies that `shoal plan` and `shoal study` compare. Each sets a few options and takes all others from the deck.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shoal/config/options.hpp"

namespace shoal::app {

struct Strategy {
  std::string name;         ///< "stage 3", "hpZ+qwZ", "slowmo"
  config::Options options;  ///< the deck's; those that the strategy does not use are at their defaults
};

/// The name of the deck's own options.
inline constexpr const char* own_strategy = "deck";

/// The strategies that make a difference on this many nodes: on a single one only ZeRO's stages and pipelines, since the
/// others reduce traffic between nodes. If none has the deck's own options, these are the last. Pipelines, of 2, 4, 8, ...
/// stages as the ranks can be divided, have the names "P=2, stage 0"; a study has them as options of other strategies.
std::vector<Strategy> strategies(const config::Options& deck, int nodes, int ranks);

/// The strategy of this name, on any number of nodes; nothing if there is none. own_strategy names the deck's options.
std::optional<Strategy> strategy_named(const config::Options& deck, const std::string& name);
std::vector<std::string> strategy_names();

/// Returns true if the losses are those of all exact strategies: no rounded messages, nodes synchronize in every step.
bool same_trajectory(const config::Options& options);

}  // namespace shoal::app
