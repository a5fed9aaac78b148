// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/states.hpp"

#include <algorithm>
#include <cmath>

#include "shoal/base/mpi_free.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/comm/reducer.hpp"
#include "shoal/comm/tree_reduce.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/kernels/storage.hpp"
#include "shoal/zero/buckets.hpp"
#include "shoal/zero/partition.hpp"
#include "zero/state_windows.hpp"

namespace shoal::zero {

namespace {

/// Consecutive tensors with the same weight decay, as a range of the flat buffer.
struct DecayRange {
  Range range;
  bool decay;
};

std::vector<DecayRange> decay_ranges(const model::UnitLayout& unit, bool decay_1d) {
  std::vector<DecayRange> result;
  for (const model::Parameter& p : unit.parameters) {
    const bool decay = decay_1d || !p.is_vector();
    if (!result.empty() && result.back().decay == decay) {
      result.back().range.end = p.range().end;
    } else {
      result.push_back({p.range(), decay});
    }
  }
  return result;
}

/// Gathers a flat buffer on all ranks from their shards. For use outside of steps: its scratch memory is not planned.
void gather(const RankGroups& groups, Span<float> whole) {
  Span<std::byte> scratch;
  const device::DeviceMemory memory([&](Memory& m) {  // its end waits for the kernels that use it
    scratch = m.take<std::byte>(Kind::buffers, comm::tree_scratch_bytes(groups.ranks, whole.size_bytes()), "messages",
                                Use::messages);
  });
  comm::tree_all_gather(*groups.group, shard_blocks(comm::bytes_of(whole), sizeof(float), groups.ranks), scratch).wait();
}

/// Each rank draws its shard alone, and all gather them.
bool gathers_initial(const model::UnitLayout& unit, const ShardLayout& layout, int ranks) {
  return ranks > 1 && !unit.copy_of && layout.elements > 0 && !layout.updated_in_part();
}

}  // namespace

States::States(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts, DType dtype,
               const std::vector<std::string>& moments, const RankGroups& groups, Memory& memory,
               const MessagesOfStates& messages, std::vector<StatePlaces> places)
    : units_(units),
      layouts_(layouts),
      places_(std::move(places)),
      dtype_(dtype),
      groups_(groups),
      moment_names_(moments),
      moments_(moments.size()) {
  places_.resize(units_.size());
  const bool rounded = dtype != DType::f32;
  std::vector<bool> moved(units.size(), false);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const ShardLayout& layout = layouts_[u];
    const bool sent = messages.of_masters || gathers_initial(units_[u], layout, groups.ranks);
    const Use of_master = sent ? Use::messages : Use::kernels;
    const Where where = places_[u].optimizer;
    moved[u] = !device::kernels_reach(where) || !device::kernels_reach(places_[u].params);
    Use of_parameters = layout.published ? comm::use_of(messages.collectives, groups.ranks) : Use::kernels;
    if (crosses_stages(units_, layouts_, u)) of_parameters = std::max(of_parameters, Use::messages);
    if (!rounded) of_parameters = std::max(of_parameters, of_master);
    const Span<std::byte> parameters = memory.take<std::byte>(Kind::parameters, layout.parameters.size() * size_of(dtype),
                                                              "parameters", of_parameters, places_[u].params);
    parameters_.push_back(parameters);
    if (rounded) {
      master_.push_back(memory.take<float>(Kind::master, layout.optimizer.size(), "master parameters", of_master, where));
    } else {
      auto* const first = reinterpret_cast<float*>(parameters.data());
      const std::size_t skipped = layout.optimizer.begin - layout.parameters.begin;
      master_.emplace_back(first == nullptr ? nullptr : first + skipped, layout.optimizer.size());
    }
    for (auto& moment : moments_) {
      moment.push_back(memory.take<float>(Kind::moments, layout.optimizer.size(), "moments", Use::kernels, where));
    }
  }
  tiles_ = update_tiles(layouts_, moved);
  std::vector<StateWindows::States> moved_tiles;
  for (const Tile& tile : tiles_) {
    if (tile.moved) moved_tiles.push_back(moved_states(tile));
  }
  if (!moved_tiles.empty()) windows_ = std::make_unique<StateWindows>(std::move(moved_tiles), memory);
}

States::~States() = default;

/// What an update of the tile reads and writes that kernels do not reach.
std::vector<Span<std::byte>> States::moved_states(const Tile& tile) const {
  const auto u = static_cast<std::size_t>(tile.unit);
  const auto part_of = [&](Span<float> state) {
    return std::as_writable_bytes(state.subspan(tile.elements.begin - layouts_[u].optimizer.begin, tile.elements.size()));
  };
  std::vector<Span<std::byte>> states;
  if (!device::kernels_reach(places_[u].params)) {
    const std::size_t size = size_of(dtype_);
    const std::size_t first = tile.elements.begin - layouts_[u].parameters.begin;
    states.push_back(parameters_[u].subspan(first * size, tile.elements.size() * size));
  }
  if (device::kernels_reach(places_[u].optimizer)) return states;
  if (dtype_ != DType::f32) states.push_back(part_of(master_[u]));
  for (const auto& moment : moments_) states.push_back(part_of(moment[u]));
  return states;
}

template <typename T>
Span<T> States::here(Span<T> state) const {
  return windows_ == nullptr ? state : windows_->here(state);
}

void States::prefetch() {
  if (windows_ != nullptr) windows_->begin_sweep();
}
void States::finish_moves() {
  if (windows_ != nullptr) windows_->finish();
}
void States::forget_prefetched() {
  if (windows_ != nullptr) windows_->forget();
}

void States::for_each_tile(bool changed, const std::function<void(const Tile& tile)>& use) {
  prefetch();
  for (const Tile& tile : tiles_) {
    if (tile.moved) windows_->open_next();
    use(tile);
    if (tile.moved) windows_->close(changed);
  }
}

/// Address of an element of the unit's flat buffer in the parameters of this rank.
std::byte* States::parameter(int unit, std::size_t element) const {
  return parameters(unit).data() + (element - layout(unit).parameters.begin) * size_of(dtype_);
}

Span<const float> States::second_moment_shard(int unit) const {
  const ShardLayout& own = layout(unit);
  return moments_.at(1)[static_cast<std::size_t>(unit)].subspan(own.shard.begin - own.optimizer.begin, own.shard.size());
}

void States::initialize(std::uint64_t seed) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const ShardLayout& layout = layouts_[u];
    if (units_[u].copy_of) continue;
    const Span<float> shard = master_[u].subspan(layout.shard.begin - layout.optimizer.begin, layout.shard.size());
    {
      const MpiFree mpi_free;  // the random numbers of a unit take seconds
      device::in_pieces(shard, device::Access::write, granule, [&](std::size_t first, Span<float> piece) {
        const std::size_t begin = layout.shard.begin + first;
        model::initialize(units_[u], seed, {begin, begin + piece.size()}, piece);
      });
    }
    pump();
    if (gathers_initial(units_[u], layout, groups_.ranks)) gather(groups_, master_[u]);
  }
}

void States::round_masters() {
  if (dtype_ == DType::f32) return;
  forget_prefetched();
  const bool moves_parameters = std::any_of(places_.begin(), places_.end(),
                                            [](const StatePlaces& places) { return !device::kernels_reach(places.params); });
  for_each_tile(moves_parameters, [&](const Tile& tile) {
    const auto u = static_cast<std::size_t>(tile.unit);
    const Range kept = intersection(layouts_[u].parameters, tile.elements);
    if (kept.empty()) return;
    const Span<float> master = master_[u].subspan(kept.begin - layouts_[u].optimizer.begin, kept.size());
    const Span<std::byte> rounded = {parameter(tile.unit, kept.begin), kept.size() * size_of(dtype_)};
    kernels::narrow(dtype_, kept.size(), here(master).data(), here(rounded).data());
  });
}

void States::step(int unit, Range range, Span<const float> gradient, const optim::Optimizer& optimizer,
                  const optim::Optimizer::Step& step, bool decay_1d) {
  const auto u = static_cast<std::size_t>(unit);
  const std::size_t begin = layouts_[u].optimizer.begin;
  for (const DecayRange& part : decay_ranges(units_[u], decay_1d)) {
    const Range r = intersection(part.range, range);
    if (r.empty()) continue;
    optim::Slice slice;
    slice.gradient = gradient.subspan(r.begin - range.begin, r.size());
    slice.master = here(master_[u].subspan(r.begin - begin, r.size()));
    slice.dtype = dtype_;
    if (dtype_ != DType::f32) slice.parameters = here(Span<std::byte>(parameter(unit, r.begin), r.size() * size_of(dtype_)));
    for (const auto& moment : moments_) slice.moments.push_back(here(moment[u].subspan(r.begin - begin, r.size())));
    slice.decay = part.decay;
    optimizer.step(slice, step);
  }
}

int States::first_not_finite() const {
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto broken = std::find_if(master_.begin(), master_.end(), [&](const Span<float>& master) {
    bool all = true;
    device::in_pieces(master, device::Access::read, granule,
                      [&](std::size_t, Span<float> piece) { all = all && std::all_of(piece.begin(), piece.end(), finite); });
    return !all;
  });
  return static_cast<int>(broken - master_.begin());
}

void States::whole_master(int unit, Span<float> memory,
                          const std::function<void(std::size_t first, Span<const float> piece)>& use) const {
  const model::UnitLayout& of = units_[static_cast<std::size_t>(unit)];
  if (of.copy_of) return;
  const int source = groups_.model == nullptr ? -1 : model_rank_of(unit);
  for (std::size_t first = 0; first < of.elements; first += memory.size()) {
    const Range range = {first, std::min(first + memory.size(), of.elements)};
    const Span<float> piece = memory.first(range.size());
    copy_kept(unit, range, piece);
    if (layout(unit).updated_in_part()) gather_shards(of.elements, range, piece);
    if (source >= 0) groups_.model->broadcast(comm::bytes_of(piece), source).wait();
    use(first, piece);
  }
}

std::vector<float> States::whole_master(int unit) const {
  std::vector<float> whole(units_[static_cast<std::size_t>(unit)].elements), result;
  whole_master(unit, whole, [&](std::size_t, Span<const float> piece) { result.assign(piece.begin(), piece.end()); });
  return result;
}

/// TiedCopies those elements of the range that this rank keeps.
void States::copy_kept(int unit, Range range, Span<float> piece) const {
  const Range held = layout(unit).optimizer, part = intersection(held, range);
  if (part.empty()) return;
  const Span<float> kept = master(unit).subspan(part.begin - held.begin, part.size());
  device::in_pieces(kept, device::Access::read, granule, [&](std::size_t first, Span<float> values) {
    std::copy(values.begin(), values.end(), piece.subspan(part.begin - range.begin + first).begin());
  });
}

/// Each rank sends the others that part of its shard of the unit, which has so many elements, that is in the range.
void States::gather_shards(std::size_t elements, Range range, Span<float> piece) const {
  std::vector<comm::Request> shards;
  for (int rank = 0; rank < groups_.ranks; ++rank) {  // in contrast to all_gather_parts(), of any size
    const Range part = intersection(shard_of(elements, rank, groups_.ranks), range);
    if (part.empty()) continue;
    const Span<float> values = piece.subspan(part.begin - range.begin, part.size());
    shards.push_back(groups_.group->broadcast(comm::bytes_of(values), rank));
  }
  for (comm::Request& shard : shards) shard.wait();
}

/// The rank of the model group that has the unit, or -1. Collective over that group.
int States::model_rank_of(int unit) const {
  std::vector<std::int64_t> owner = {layout(unit).elements > 0 ? groups_.model->rank() : -1};
  groups_.model->all_reduce(Span<std::int64_t>(owner), comm::Reduce::max).wait();
  return static_cast<int>(owner.front());
}

std::vector<NamedSlice> named_slices(const std::vector<model::UnitLayout>& units, const std::string& prefix,
                                     const std::vector<Range>& held, const std::vector<Span<float>>& flat,
                                     const std::vector<Range>& wanted) {
  std::vector<NamedSlice> result;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const model::Parameter& p : units[u].parameters) {
      Range part = intersection(wanted[u], p.range());
      const Span<float> values = part.empty() ? Span<float>() : flat[u].subspan(part.begin - held[u].begin, part.size());
      if (part.empty()) part = {p.offset, p.offset};
      result.push_back({prefix + p.name, p.shape, {part.begin - p.offset, part.end - p.offset}, values});
    }
  }
  return result;
}

std::vector<Range> States::ranges(Which which) const {
  std::vector<Range> result;
  for (const ShardLayout& layout : layouts_) result.push_back(which == Which::kept ? layout.optimizer : layout.shard);
  return result;
}

std::vector<NamedSlice> States::parameter_slices(const std::vector<Range>& wanted) const {
  return named_slices(units_, "/parameters/", ranges(Which::kept), master_, wanted);
}

std::vector<NamedSlice> States::moment_slices(const std::vector<Range>& wanted) const {
  std::vector<NamedSlice> result;
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    const std::string prefix = "/moments/" + moment_names_[i] + "/";
    append(result, named_slices(units_, prefix, ranges(Which::kept), moments_[i], wanted));
  }
  return result;
}

}  // namespace shoal::zero
