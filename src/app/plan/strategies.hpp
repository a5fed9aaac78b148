// SPDX-License-Identifier: Apache-2.0
// The strategies that `shoal plan` and `shoal study` compare. Each sets a few options and takes all others from the deck.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shoal/config/options.hpp"

namespace shoal::app {

struct Strategy {
  std::string name;         ///< "stage 3", "hpZ+qwZ", "slowmo"
  config::Options options;  ///< the deck's, but for those that make the strategy
};

/// The name of the deck's own options.
inline constexpr const char* own_strategy = "deck";

/// The strategies that make a difference on this many nodes: on a single one only ZeRO's stages and pipelines, since the
/// others reduce traffic between nodes. If none has the deck's own options, these are the last. Pipelines, of 2, 4, 8, ...
/// stages as the ranks can be divided, have the names "P=2, stage 0"; a study has them as options of other strategies.
/// Options of the deck that a strategy does not use are at their defaults.
std::vector<Strategy> strategies(const config::Options& deck, int nodes, int ranks);

/// The strategy of this name with all other options of the deck, also those that it does not use; nothing if there is none.
/// own_strategy names the deck's options.
std::optional<Strategy> strategy_named(const config::Options& deck, const std::string& name);
/// Sets options that a strategy does not use to their defaults, since the deck may have set them for its own one; but not
/// those in `kept`.
void forget_unused(config::Options& options, const std::set<std::string>& kept);
std::vector<std::string> strategy_names();

/// Returns true if the losses are those of all exact strategies: no rounded messages, nodes synchronize in every step.
bool same_trajectory(const config::Options& options);

}  // namespace shoal::app
