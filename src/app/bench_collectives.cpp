// SPDX-License-Identifier: Apache-2.0
#include "bench_collectives.hpp"

#include <algorithm>
#include <cmath>

#include "shoal/comm/collectives.hpp"

namespace shoal::app {

namespace {

using comm::Collectives;

template <Collectives how>
void all_gather(Work& work) {
  comm::all_gather(how, work.group(), work.blocks(), work.scratch()).wait();
}

template <Collectives how>
void reduce_scatter(Work& work) {
  comm::reduce_scatter(how, work.group(), work.blocks(), DType::f32, work.scratch()).wait();
}

void tree_all_reduce(Work& work) {
  reduce_scatter<Collectives::reproducible>(work);
  all_gather<Collectives::reproducible>(work);
}

void native_all_reduce(Work& work) { comm::native_all_reduce(work.group(), work.blocks()).wait(); }
void broadcast(Work& work) { work.group().broadcast(work.data(), 0).wait(); }
void barrier(Work& work) { work.group().barrier().wait(); }

void ping_pong(Work& work) {
  comm::Communicator& group = work.group();
  if (group.rank() > 1) return;
  const int partner = 1 - group.rank();
  if (group.rank() == 0) group.send(work.data(), partner, 0).wait();
  group.receive(work.data(), partner, 0).wait();
  if (group.rank() == 1) group.send(work.data(), partner, 0).wait();
}

/// Whole numbers that differ between ranks and places, small enough to be summed exactly.
float number(int rank, std::size_t place) {
  return static_cast<float>((7 * place + 13 * static_cast<std::size_t>(rank)) % 97);
}

float sum_over(int ranks, std::size_t place) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += number(rank, place);
  return sum;
}

}  // namespace

const std::vector<Collective>& bench_collectives() {
  static const std::vector<Collective> table = {
      {"ping_pong", "native", Effect::ping_pong, ping_pong},
      {"barrier", "native", Effect::nothing, barrier},
      {"broadcast", "native", Effect::broadcast, broadcast},
      {"all_gather", "native", Effect::gather, all_gather<Collectives::native>},
      {"all_gather", "tree", Effect::gather, all_gather<Collectives::reproducible>},
      {"reduce_scatter", "native", Effect::reduce_scatter, reduce_scatter<Collectives::native>},
      {"reduce_scatter", "tree", Effect::reduce_scatter, reduce_scatter<Collectives::reproducible>},
      {"all_reduce", "native", Effect::all_reduce, native_all_reduce},
      {"all_reduce", "tree", Effect::all_reduce, tree_all_reduce},
  };
  return table;
}

double Collective::bus_factor(int ranks) const {
  const double share = (ranks - 1.0) / ranks;
  switch (effect) {
    case Effect::gather:
    case Effect::reduce_scatter: return share;
    case Effect::all_reduce: return 2 * share;
    case Effect::broadcast:
    case Effect::ping_pong: return 1;
    case Effect::nothing: break;
  }
  return 0;
}

Work::Work(comm::Communicator& group, std::size_t bytes) : group_(group) {
  const auto ranks = static_cast<std::size_t>(group.size());
  data_.resize((bytes + ranks * sizeof(float) - 1) / (ranks * sizeof(float)) * ranks);
  std::size_t scratch = 0;
  for (const Collectives how : {Collectives::reproducible, Collectives::native}) {
    scratch = std::max(scratch, comm::scratch_bytes(how, group.size(), this->bytes()));
  }
  scratch_.resize(scratch);
}

std::size_t Work::block_length() const { return data_.size() / static_cast<std::size_t>(group_.size()); }

comm::Blocks Work::blocks() {
  const std::size_t length = block_length();
  comm::Blocks blocks;
  for (std::size_t b = 0; b * length < data_.size(); ++b) {
    blocks.push_back({comm::bytes_of(Span<float>(data_).subspan(b * length, length))});
  }
  return blocks;
}

void Work::clear() { std::fill(data_.begin(), data_.end(), 0.0F); }

void Work::fill(Effect effect) {
  const int rank = group_.rank();
  for (std::size_t i = 0; i < data_.size(); ++i) {
    const bool own = i / block_length() == static_cast<std::size_t>(rank);
    const bool given = effect == Effect::gather                                     ? own
                       : effect == Effect::broadcast || effect == Effect::ping_pong ? rank == 0
                                                                                    : true;
    data_[i] = given ? number(rank, i) : -1.0F;
  }
}

std::uint64_t Work::wrong(Effect effect, double tolerance) const {
  const int rank = group_.rank();
  if (effect == Effect::nothing || (effect == Effect::ping_pong && rank > 1)) return 0;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < data_.size(); ++i) {
    const auto owner = static_cast<int>(i / block_length());
    if (effect == Effect::reduce_scatter && owner != rank) continue;
    const bool sums = effect == Effect::reduce_scatter || effect == Effect::all_reduce;
    const float right = sums ? sum_over(group_.size(), i) : number(effect == Effect::gather ? owner : 0, i);
    if (!(std::abs(data_[i] - right) <= tolerance * std::abs(right))) ++count;
  }
  return count;
}

}  // namespace shoal::app
