// SPDX-License-Identifier: Apache-2.0
// The stages of ZeRO (Rajbhandari et al. 2020, section 5) as a table, and the shard layout that follows for each unit: which
// elements of its flat buffer does this rank keep of each state? The rest of the program asks for these properties, never
// for the stage's number.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "shoal/model/part.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/zero/options.hpp"
#include "shoal/zero/partition.hpp"
#include "shoal/zero/rank_groups.hpp"

namespace shoal::zero {

/// Which states are sharded over the ranks; the others are whole on every rank.
struct Stage {
  bool shards_optimizer;   ///< moments and master parameters: P_os
  bool shards_gradients;   ///< reduced after every micro-step, so that no rank keeps a whole gradient: P_os+g
  bool shards_parameters;  ///< gathered unit by unit when they are needed: P_os+g+p
};
inline constexpr std::array<Stage, 4> stages = {{
    {false, false, false},
    {true, false, false},
    {true, true, false},
    {true, true, true},
}};
inline const Stage& stage_of(const ZeroOptions& options) { return stages.at(static_cast<std::size_t>(options.stage)); }

/// The elements of a unit's flat buffer that this rank keeps between steps. A unit that other stages of a pipeline compute
/// is absent: it has no elements here and all ranges are empty, so nothing is kept, sent or summed for it. Units have the
/// same numbers on all ranks, present or not. A copy of another unit (zero/tied_copies.hpp) has no optimizer states.
struct ShardLayout {
  std::size_t elements = 0;  ///< of the flat buffer; 0: the unit is absent
  Range shard;               ///< the elements that this rank keeps of a sharded state
  Range parameters, gradients, optimizer;
  bool gathered = false;   ///< parameters are sharded, and gathered for each use (the same on all ranks)
  bool published = false;  ///< parameters are whole, but each rank updates its shard only: gathered after each update
  /// Returns true if each rank updates its shard only. The same on all ranks, even if one rank's shard is the whole unit.
  bool updated_in_part() const { return gathered || published; }
};

/// Returns true if a unit is gathered for each use.
bool gathers_units(const std::vector<ShardLayout>& layouts);
/// Returns true if every rank updates all its units as a whole, and so needs their whole gradients: after they are reduced,
/// they are gathered.
bool gathers_gradients(const std::vector<ShardLayout>& layouts, int ranks);

/// Returns true if the unit is present and is a copy of one that is absent, or has a copy that is absent: another stage of a
/// pipeline has it (zero/tied_copies.hpp).
bool crosses_stages(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts, std::size_t unit);

/// The layouts in which copies are absent: for what must count their gradients once, in that of the original.
std::vector<ShardLayout> without_copies(const std::vector<model::UnitLayout>& units, std::vector<ShardLayout> layouts);

/// The layouts, by unit. Units of fewer than options.persist_below elements keep their parameters whole in every stage.
/// parts: those that this rank computes, as all ranks of `groups` do. It computes all units if there are no parts, or one
/// without units.
std::vector<ShardLayout> shard_layouts(const std::vector<model::UnitLayout>& units, const ZeroOptions& options,
                                       const RankGroups& groups, const std::vector<model::Part>& parts = {});

}  // namespace shoal::zero
