// SPDX-License-Identifier: Apache-2.0
// The table of a report about a hang: what each rank is doing, and whose collectives do not fit together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shoal/base/activity.hpp"
#include "shoal/comm/topology.hpp"

namespace shoal::comm {

/// What the reporting rank knows of a rank.
struct RankState {
  std::optional<activity::Picture> picture;  ///< empty: nothing is known of it
  bool silent = false;                       ///< it hangs: no sign of life for comm.timeout
  char process = '?';                        ///< state of its process as in /proc ('T': stopped); '?': not known
};

/// "3", "0-5, 7"; ascending.
std::string ranks_text(const std::vector<int>& ranks);
/// "all_gather of unit h.3, step 17 (number 4711 of group all)".
std::string words_of(const activity::Operation& operation, const std::vector<GroupKind>& groups);

/// Lines that begin with two spaces, each with its end of line. ranks: by rank. Ranks in the same state share a line: first
/// those that hang, then those of which nothing is known, those at work and those that wait. Then a line for each group
/// with ranks that wait in it and whose ranks have started different numbers of collectives, or have started different
/// collectives under one number.
std::string hang_table(const std::vector<RankState>& ranks, const std::vector<GroupKind>& groups);

}  // namespace shoal::comm
