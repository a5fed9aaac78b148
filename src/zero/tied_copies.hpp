// SPDX-License-Identifier: Apache-2.0
// Units that are copies of another unit's parameters (model::UnitLayout::copy_of), as the head's copy of a tied embedding.
// The gradients of both are summed over micro-batches and ranks by themselves, like those of any two units. Then, once a
// step, each rank adds its shard of the copy's gradient to its shard of the original's, which is now the gradient: it has
// one norm and one update, and there is one set of moments. After the update the copy gets the new parameters. So it makes
// no difference to any bit whether the two units are on one rank or on two stages of a pipeline, which send these shards to
// each other.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/zero/stages.hpp"
#include "shoal/zero/states.hpp"
#include "zero/gradients.hpp"

namespace shoal::zero {

class TiedCopies {
 public:
  /// dtype: of the gradients; none if nothing is trained. All ranks of RankGroups::model have the same number in their ZeRO
  /// groups. Originals are on its first rank and copies on its last one, or both on this rank.
  TiedCopies(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts, const RankGroups& groups,
             std::optional<DType> dtype, Memory& memory);

  /// Between Gradients::finish_step() and start_gather(). Collective over RankGroups::model.
  void add_gradients(Gradients& gradients);
  /// After the parameters of the originals were written, before their all-gather. Collective over RankGroups::model. What
  /// this rank updates of the original (ShardLayout::optimizer), its copy gets on the rank that has it.
  void renew(States& states);

  bool any() const { return !pairs_.empty(); }

 private:
  struct Pair {
    int original, copy;
    Span<std::byte> received;  ///< if the copy is on another rank: its gradient, on the original's rank
  };
  bool has(int unit) const { return layouts_[static_cast<std::size_t>(unit)].elements > 0; }
  bool together(const Pair& pair) const { return has(pair.original) && has(pair.copy); }
  void begin();
  void send(const Pair& pair, int to, Span<const std::byte> data);
  void receive(const Pair& pair, int from, Span<std::byte> data);

  std::vector<ShardLayout> layouts_;
  RankGroups groups_;
  std::optional<DType> dtype_;
  std::vector<Pair> pairs_;
};

}  // namespace shoal::zero
