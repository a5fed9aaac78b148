// SPDX-License-Identifier: Apache-2.0
// Ranks that train a problem with known gradients, with the states of a real run, on nodes of any size.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "shoal/device/memory.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/sync/synchroniser.hpp"
#include "shoal/zero/stages.hpp"
#include "support/mpi_main.hpp"

namespace shoal::sync::test {

inline constexpr std::size_t quant_block = 64;

/// Returns the gradient of this rank's node for element `element` of the unit, whose parameter is x.
using Gradient = std::function<float(std::size_t unit, std::size_t element, float x)>;

/// The groups over which a Toy communicates.
struct ToyGroups {
  comm::Communicator &node = shoal::test::world().node(), &across = shoal::test::world().across(),
                     &self = shoal::test::world().consecutive(1);
};

class Toy {
 public:
  Toy(const SyncOptions& options, const std::vector<model::UnitLayout>& units, int stage, double momentum,
      const ToyGroups& groups = {})
      : groups_(groups),
        units_(units),
        optimizer_(optim::make({.kind = optim::OptimizerKind::sgd, .weight_decay = 0, .momentum = momentum})) {
    Memory counting(device::images());
    build(options, stage, true, counting);
    planned_ = counting.taken();
    memory_ = std::make_unique<device::DeviceMemory>(planned_);
    build(options, stage, false, *memory_);
  }

  zero::States& states() { return *states_; }
  Synchroniser& synchroniser() { return *synchroniser_; }
  const Memory& memory() const { return *memory_; }
  const Ledger& planned() const { return planned_; }

  /// Each rank sets the elements that it keeps.
  void fill(const std::function<float(std::size_t unit, std::size_t element)>& value) {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const int unit = static_cast<int>(u);
      const Range own = states_->layout(unit).optimizer;
      for (std::size_t i = own.begin; i < own.end; ++i) states_->master(unit)[i - own.begin] = value(u, i);
    }
  }

  /// The local update of step `step` (from 1).
  void train(std::size_t step, double rate, const Gradient& gradient) {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const int unit = static_cast<int>(u);
      const Range own = states_->layout(unit).optimizer;
      std::vector<float> g(own.size());
      for (std::size_t i = 0; i < g.size(); ++i) g[i] = gradient(u, own.begin + i, states_->master(unit)[i]);
      states_->step(unit, own, g, *optimizer_, {static_cast<std::int64_t>(step), rate, 0, 0, 1.0F}, true);
    }
  }

  /// All parameters of the node, on each of its ranks.
  std::vector<float> whole() const {
    std::vector<float> all;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const std::vector<float> unit = states_->whole_master(static_cast<int>(u));
      all.insert(all.end(), unit.begin(), unit.end());
    }
    return all;
  }

 private:
  NodeGroups groups(bool counting) const {
    const auto place = [&](comm::Communicator& group) {
      return zero::RankGroups{group.rank(), group.size(), counting ? nullptr : &group};
    };
    return {place(groups_.node), place(groups_.across), &groups_.self};
  }

  void build(const SyncOptions& options, int stage, bool counting, Memory& memory) {
    zero::ZeroOptions zero;
    zero.stage = stage;
    const NodeGroups place = groups(counting);
    states_ = std::make_unique<zero::States>(units_, zero::shard_layouts(units_, zero, place.node), DType::f32,
                                             optimizer_->moment_names(), place.node, memory,
                                             zero::MessagesOfStates{.of_masters = true});
    synchroniser_ = std::make_unique<Synchroniser>(options, SyncContext{.quant_block = quant_block, .shows = true}, units_,
                                                   *states_, place, memory);
  }

  ToyGroups groups_;
  std::vector<model::UnitLayout> units_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Ledger planned_;
  std::unique_ptr<device::DeviceMemory> memory_;
  std::unique_ptr<zero::States> states_;
  std::unique_ptr<Synchroniser> synchroniser_;
};

/// From now on nodes have this number of ranks. MPI takes long to create groups, so tests with nodes of one size run
/// together.
inline void divide_into_nodes(int ranks_per_node) {
  static int now = 0;
  if (ranks_per_node == now) return;
  now = ranks_per_node;
  shoal::test::world().make_groups(shoal::test::comm_options(ranks_per_node));
}

}  // namespace shoal::sync::test
