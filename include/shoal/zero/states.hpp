// SPDX-License-Identifier: Apache-2.0
// Parameters, master parameters and moments of this rank's units: the elements that it keeps between steps, and the
// optimizer's step over them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/state.hpp"
#include "shoal/comm/options.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/zero/stages.hpp"
#include "shoal/zero/state_places.hpp"
#include "shoal/zero/update_tiles.hpp"

namespace shoal::zero {

class StateWindows;

/// The elements wanted[u] of each unit as slices of the tensors prefix + name. flat[u] is this rank's memory of elements
/// held[u], which include wanted[u].
std::vector<NamedSlice> named_slices(const std::vector<model::UnitLayout>& units, const std::string& prefix,
                                     const std::vector<Range>& held, const std::vector<Span<float>>& flat,
                                     const std::vector<Range>& wanted);

/// The messages that use states, besides those of States itself.
struct MessagesOfStates {
  comm::Collectives collectives = comm::Collectives::reproducible;  ///< by which updated parameters are gathered
  bool of_masters = false;                                          ///< the caller sends masters (sync/average.hpp)
};

class States {
 public:
  /// moments: names of the optimizer's states; none if nothing is trained. places: by unit; empty: all are on the device.
  States(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts, DType dtype,
         const std::vector<std::string>& moments, const RankGroups& groups, Memory& memory,
         const MessagesOfStates& messages = {}, std::vector<StatePlaces> places = {});
  ~States();

  DType dtype() const { return dtype_; }
  /// The elements ShardLayout::parameters of the unit, in the model's dtype. They may wait in a tier.
  Span<std::byte> parameters(int unit) const { return parameters_[static_cast<std::size_t>(unit)]; }
  /// The elements ShardLayout::optimizer of the unit's master parameters, in fp32. If the model computes in fp32 they are
  /// the parameters.
  Span<float> master(int unit) const { return master_[static_cast<std::size_t>(unit)]; }
  const StatePlaces& places(int unit) const { return places_[static_cast<std::size_t>(unit)]; }
  const ShardLayout& layout(int unit) const { return layouts_[static_cast<std::size_t>(unit)]; }

  /// Adam's second moment of the unit, on this rank's shard.
  Span<const float> second_moment_shard(int unit) const;

  // Kernels, and step(), may use states only within for_each_tile(), unless all are within their reach (device/memory.hpp).
  // device::in_pieces() always reads and writes them.

  /// Starts to bring up what the next for_each_tile() begins with.
  void prefetch();
  /// Waits until all that for_each_tile() has changed is where it waits: before others read it there.
  void finish_moves();
  /// Undoes prefetch(): the states are not updated, or are written by others.
  void forget_prefetched();
  /// Calls use(tile) for all that this rank updates, tile by tile, in the order of units. changed: use writes states.
  void for_each_tile(bool changed, const std::function<void(const Tile& tile)>& use);

  /// Sets the masters to random initial values; moments are zero. Collective. round_masters() must be called after it.
  void initialize(std::uint64_t seed);
  /// Rounds the masters to parameters, after the masters were written.
  void round_masters();

  /// One optimizer step over the elements `range` of the unit, within a tile. decay_1d: weight decay is
  /// applied to biases and norms too.
  void step(int unit, Range range, Span<const float> gradient, const optim::Optimizer& optimizer,
            const optim::Optimizer::Step& step, bool decay_1d);

  /// Returns the first unit whose masters on this rank hold a NaN or an infinity, or the number of units if there is none.
  /// Reads all masters: for messages about a failed step.
  int first_not_finite() const;

  /// Calls use(first, piece) for all masters of a unit, one piece after another, on every rank, even if the unit is absent
  /// there. A piece lies in `memory`, which is the host's and has the same size on all ranks, and begins with element
  /// `first` of the unit. Does nothing for a unit that is a copy. Collective, also over RankGroups::model; for exporting.
  void whole_master(int unit, Span<float> memory,
                    const std::function<void(std::size_t first, Span<const float> piece)>& use) const;
  /// The same in one piece.
  std::vector<float> whole_master(int unit) const;

  enum class Which { own, kept };
  /// Slices for checkpoints. own: this rank's shards, so that the ranks together write every element once. kept: all that
  /// this rank keeps in fp32, for reading.
  std::vector<NamedSlice> parameter_slices(Which which) const { return parameter_slices(ranges(which)); }
  std::vector<NamedSlice> moment_slices(Which which) const { return moment_slices(ranges(which)); }
  /// wanted: elements of each unit, within ShardLayout::optimizer.
  std::vector<NamedSlice> parameter_slices(const std::vector<Range>& wanted) const;
  std::vector<NamedSlice> moment_slices(const std::vector<Range>& wanted) const;

 private:
  void copy_kept(int unit, Range range, Span<float> piece) const;
  void gather_shards(std::size_t elements, Range range, Span<float> piece) const;
  int model_rank_of(int unit) const;
  std::vector<Span<std::byte>> moved_states(const Tile& tile) const;
  template <typename T>
  Span<T> here(Span<T> state) const;
  std::vector<Range> ranges(Which which) const;
  std::byte* parameter(int unit, std::size_t element) const;

  std::vector<model::UnitLayout> units_;
  std::vector<ShardLayout> layouts_;
  std::vector<StatePlaces> places_;
  DType dtype_;
  RankGroups groups_;
  std::vector<Span<std::byte>> parameters_;  // by unit
  std::vector<Span<float>> master_;          // by unit; a part of the parameters if the model computes in fp32
  std::vector<std::string> moment_names_;
  std::vector<std::vector<Span<float>>> moments_;  // by moment, by unit
  std::vector<Tile> tiles_;
  std::unique_ptr<StateWindows> windows_;  // null if kernels reach all states
};

}  // namespace shoal::zero
