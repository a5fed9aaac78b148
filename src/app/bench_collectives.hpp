// SPDX-License-Identifier: Apache-2.0
// What `shoal bench comm` can measure: adding a collective is a row in the table of bench_collectives.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "shoal/comm/quantized.hpp"

namespace shoal::app {

/// What a collective makes of the data of D ranks: D blocks of equal length on every rank, block b rank b's.
enum class Effect {
  gather,          ///< every rank's own block comes to all
  reduce_scatter,  ///< a rank's own block becomes the sum over ranks
  all_reduce,      ///< all blocks become the sum
  broadcast,       ///< all blocks become rank 0's
  ping_pong,       ///< those of rank 0 go to rank 1 and back; other ranks look on
  nothing,
};

struct Collective;

/// The memory of one measurement, and what its data must be before and after.
class Work {
 public:
  /// Of at least this many bytes: whole blocks of fp32. groups.all is the group that is measured.
  Work(const comm::Hierarchy& groups, std::size_t bytes);

  const comm::Hierarchy& groups() const { return groups_; }
  comm::Communicator& group() { return groups_.all; }
  std::size_t bytes() const { return data_.size() * sizeof(float); }
  Span<std::byte> data() { return comm::bytes_of(Span<float>(data_)); }
  comm::Blocks blocks();
  /// As much as any collective needs.
  Span<std::byte> scratch() { return scratch_; }

  /// Known numbers where the collective begins with some, -1 elsewhere; how many are wrong after it.
  void fill(Effect effect);
  std::uint64_t wrong(const Collective& collective) const;
  /// Zeros, which sums leave as they are.
  void clear();

 private:
  std::size_t block_length() const;

  comm::Hierarchy groups_;
  std::vector<float> data_;
  std::vector<std::byte> scratch_;
};

struct Collective {
  std::string_view name;
  std::string_view how;  ///< the algorithm
  Effect effect;
  void (*run)(Work& work);  ///< one operation from start to end
  double error = 0;  ///< largest error of a right result for each term of it; whole numbers below 2^24 are summed exactly
  bool equal_nodes = false;  ///< for nodes of as many ranks each

  /// Bus bandwidth is this many times bytes / time (nccl-tests, doc/PERFORMANCE.md): what a rank's link must carry whatever
  /// the algorithm, so that it can be compared with the link's rate.
  double bus_factor(int ranks) const;
  /// Messages that follow each other in one operation: a ping-pong's time is that of two.
  int trips() const { return effect == Effect::ping_pong ? 2 : 1; }
};

const std::vector<Collective>& bench_collectives();

}  // namespace shoal::app
