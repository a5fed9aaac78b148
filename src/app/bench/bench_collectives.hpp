// SPDX-License-Identifier: Apache-2.0
// The collectives that `shoal bench comm` measures. A new one is a row in the table of bench_collectives.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "shoal/comm/quantized.hpp"
#include "shoal/device/memory.hpp"

namespace shoal::app {

/// The effect of a collective on the data of D ranks: D blocks of equal length on every rank. Block b belongs to rank b.
enum class Effect {
  gather,          ///< all ranks get every rank's own block
  reduce_scatter,  ///< a rank's own block becomes the sum over the ranks
  all_reduce,      ///< all blocks become the sum
  broadcast,       ///< all blocks become rank 0's
  ping_pong,       ///< rank 0 sends its blocks to rank 1 and back; other ranks do nothing
  nothing,
};

struct Collective;

/// The memory of one measurement, its data before and the check of its data after.
class Work {
 public:
  /// Takes whole blocks of fp32, at least `bytes` in all. groups.all is the group that is measured.
  Work(const comm::Hierarchy& groups, std::size_t bytes);

  const comm::Hierarchy& groups() const { return groups_; }
  comm::Communicator& group() { return groups_.all; }
  std::size_t bytes() const { return data_.size() * sizeof(float); }
  Span<std::byte> data() { return comm::bytes_of(data_); }
  comm::Blocks blocks();
  /// Scratch memory, enough for any of the collectives.
  Span<std::byte> scratch() { return scratch_; }

  /// fill(): sets the collective's input to known numbers, and the rest to -1. wrong(): number of wrong elements after it.
  void fill(Effect effect);
  std::uint64_t wrong(const Collective& collective) const;
  /// Sets all data to zero, so that repeated sums do not overflow.
  void clear();

 private:
  std::size_t block_length() const { return data_.size() / static_cast<std::size_t>(groups_.all.size()); }
  std::size_t scratch_bytes(std::size_t elements) const;

  comm::Hierarchy groups_;
  std::unique_ptr<device::DeviceMemory> memory_;
  std::optional<device::PieceMemory> pieces_;  // for fill() and wrong()
  Span<float> data_;
  Span<std::byte> scratch_;
};

struct Collective {
  std::string_view name;
  std::string_view how;  ///< the algorithm
  Effect effect;
  void (*run)(Work& work);  ///< one operation from start to end
  double error = 0;  ///< error bound of a correct result per term of a sum; 0: sums of whole numbers are exact in fp32
  bool equal_nodes = false;  ///< needs the same number of ranks on each node

  /// Factor of bytes / time that gives the bus bandwidth (nccl-tests, doc/PERFORMANCE.md): the least that a rank's link must
  /// carry with any algorithm, so it can be compared with the link's rate.
  double bus_factor(int ranks) const;
  /// Number of messages in a row in one operation, by which its time is divided: 2 for a ping-pong.
  int trips() const { return effect == Effect::ping_pong ? 2 : 1; }
};

const std::vector<Collective>& bench_collectives();

/// A message from rank `first` of the group to rank `second` and back. Other ranks do nothing.
void ping_pong(comm::Communicator& group, int first, int second, Span<std::byte> data);

}  // namespace shoal::app
