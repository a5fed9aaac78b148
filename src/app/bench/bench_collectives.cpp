// SPDX-License-Identifier: Apache-2.0
#include "app/bench/bench_collectives.hpp"

#include <algorithm>
#include <cmath>

#include "shoal/comm/collectives.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::app {

namespace {

void tree_all_gather(Work& work) { comm::tree_all_gather(work.group(), work.blocks(), work.scratch()).wait(); }
void native_all_gather(Work& work) { comm::native_all_gather(work.group(), work.blocks(), work.scratch()).wait(); }

void tree_reduce_scatter(Work& work) {
  comm::tree_reduce_scatter(work.group(), work.blocks(), DType::f32, work.scratch()).wait();
}
void native_reduce_scatter(Work& work) {
  comm::native_reduce_scatter(work.group(), work.blocks(), DType::f32, work.scratch()).wait();
}

void tree_all_reduce(Work& work) {
  tree_reduce_scatter(work);
  tree_all_gather(work);
}

void native_all_reduce(Work& work) { comm::native_all_reduce(work.group(), work.blocks(), DType::f32).wait(); }
void broadcast(Work& work) { work.group().broadcast(work.data(), 0).wait(); }
void barrier(Work& work) { work.group().barrier().wait(); }

void ping_pong(Work& work) { app::ping_pong(work.group(), 0, 1, work.data()); }

kernels::QuantFormat format_of(int bits) { return {bits}; }

template <int bits>
void quantized_all_gather(Work& work) {
  comm::quantized_all_gather(work.group(), work.blocks(), DType::f32, format_of(bits), work.scratch()).wait();
}

/// INT8 within nodes, the default of zero.qgz_node.
comm::ReduceFormats reduce_formats(int bits) { return {format_of(8), format_of(bits)}; }

template <int bits>
void quantized_reduce_scatter(Work& work) {
  comm::quantized_reduce_scatter(work.groups(), work.blocks(), DType::f32, reduce_formats(bits), work.scratch()).wait();
}

/// Whole numbers that differ between ranks and between places, small enough to be summed exactly.
constexpr std::size_t largest_number = 96;
float number(int rank, std::size_t place) {
  return static_cast<float>((7 * place + 13 * static_cast<std::size_t>(rank)) % (largest_number + 1));
}

/// Error bound for one of these numbers in a quantized all-gather (kernels/quantize.hpp). The scale is at most (1 + 2/32)
/// times the largest magnitude of the block: it is rounded up by less than 1/32 of a power of two, which is below twice that
/// magnitude. The error is largest for a number that is as large as the largest, but of the other sign: it is the distance
/// of the last two codes, 1/128 of the scale in INT8 and (8 x 24 - 7 x 23) / 192 of it in INT4.
constexpr double error_bound(int bits) {
  return static_cast<double>(largest_number) * (1 + 2.0 / 32) * (bits == 8 ? 1.0 / 128 : 31.0 / 192);
}
/// Error bound per term of the two-step reduce-scatter (INT8 within nodes, then `bits`). The second step's error is
/// proportional to the sum over a node, so to its number of terms.
constexpr double error_bound_in_sums(int bits) { return error_bound(8) + error_bound(bits); }

float sum_over(int ranks, std::size_t place) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += number(rank, place);
  return sum;
}

}  // namespace

/// As exchanges of one message, which every group has: on queued groups nobody waits for them here.
void ping_pong(comm::Communicator& group, int first, int second, Span<std::byte> data) {
  if (group.rank() != first && group.rank() != second) return;
  const int partner = group.rank() == first ? second : first;
  const auto send = [&] { group.exchange({{partner, data}}, {}, 0).wait(); };
  if (group.rank() == first) send();
  group.exchange({}, {{partner, data}}, 0).wait();
  if (group.rank() == second) send();
}

const std::vector<Collective>& bench_collectives() {
  static const std::vector<Collective> table = {
      {"ping_pong", "native", Effect::ping_pong, ping_pong},
      {"barrier", "native", Effect::nothing, barrier},
      {"broadcast", "native", Effect::broadcast, broadcast},
      {"all_gather", "native", Effect::gather, native_all_gather},
      {"all_gather", "tree", Effect::gather, tree_all_gather},
      {"reduce_scatter", "native", Effect::reduce_scatter, native_reduce_scatter},
      {"reduce_scatter", "tree", Effect::reduce_scatter, tree_reduce_scatter},
      {"all_gather", "int8", Effect::gather, quantized_all_gather<8>, error_bound(8)},
      {"all_gather", "int4", Effect::gather, quantized_all_gather<4>, error_bound(4)},
      {"reduce_scatter", "int8", Effect::reduce_scatter, quantized_reduce_scatter<8>, error_bound_in_sums(8), true},
      {"reduce_scatter", "int4", Effect::reduce_scatter, quantized_reduce_scatter<4>, error_bound_in_sums(4), true},
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

Work::Work(const comm::Hierarchy& groups, std::size_t bytes) : groups_(groups) {
  const auto ranks = static_cast<std::size_t>(groups_.all.size());
  const std::size_t elements = (bytes + ranks * sizeof(float) - 1) / (ranks * sizeof(float)) * ranks;
  const std::size_t scratch = scratch_bytes(elements);
  const Use use = ranks > 1 ? Use::collectives : Use::kernels;
  memory_ = std::make_unique<device::DeviceMemory>([&](Memory& memory) {
    data_ = memory.take<float>(Kind::buffers, elements, "data", use);
    scratch_ = memory.take<std::byte>(Kind::buffers, scratch, "messages", use);
    pieces_.emplace(memory, "pieces of the data");
  });
}

std::size_t Work::scratch_bytes(std::size_t elements) const {
  const int ranks = groups_.all.size();
  const std::size_t bytes = elements * sizeof(float), block = elements / static_cast<std::size_t>(ranks);
  std::size_t scratch = std::max(comm::tree_scratch_bytes(ranks, bytes), comm::native_scratch_bytes(bytes));
  for (const int bits : {8, 4}) {
    const comm::ReduceFormats formats = reduce_formats(bits);
    const int nodes = groups_.across.size(), on_node = groups_.node.size();
    scratch = std::max(
        {scratch, comm::quantized_gather_scratch_bytes(ranks, elements, static_cast<std::size_t>(ranks), formats.across),
         comm::quantized_reduce_scratch_bytes(on_node, nodes, block, 1, formats)});
  }
  return scratch;
}

comm::Blocks Work::blocks() {
  const std::size_t length = block_length();
  comm::Blocks blocks;
  for (std::size_t b = 0; b * length < data_.size(); ++b) {
    blocks.push_back({comm::bytes_of(data_.subspan(b * length, length))});
  }
  return blocks;
}

void Work::clear() { kernels::fill(data_.size(), 0.0F, data_.data()); }

void Work::fill(Effect effect) {
  const int rank = groups_.all.rank();
  device::in_pieces(data_, device::Access::write, 1, [&](std::size_t first, Span<float> piece) {
    for (std::size_t i = first; i < first + piece.size(); ++i) {
      const bool own = i / block_length() == static_cast<std::size_t>(rank);
      const bool given = effect == Effect::gather                                     ? own
                         : effect == Effect::broadcast || effect == Effect::ping_pong ? rank == 0
                                                                                      : true;
      piece[i - first] = given ? number(rank, i) : -1.0F;
    }
  });
}

std::uint64_t Work::wrong(const Collective& collective) const {
  const Effect effect = collective.effect;
  const int rank = groups_.all.rank(), ranks = groups_.all.size();
  if (effect == Effect::nothing || (effect == Effect::ping_pong && rank > 1)) return 0;
  std::uint64_t count = 0;
  device::in_pieces(data_, device::Access::read, 1, [&](std::size_t first, Span<float> piece) {
    for (std::size_t i = first; i < first + piece.size(); ++i) {
      const auto owner = static_cast<int>(i / block_length());
      if (effect == Effect::reduce_scatter && owner != rank) continue;
      const bool sums = effect == Effect::reduce_scatter || effect == Effect::all_reduce;
      const float right = sums ? sum_over(ranks, i) : number(effect == Effect::gather ? owner : 0, i);
      if (!(std::abs(piece[i - first] - right) <= collective.error * (sums ? ranks : 1))) ++count;
    }
  });
  return count;
}

}  // namespace shoal::app
