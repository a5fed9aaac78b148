// SPDX-License-Identifier: Apache-2.0
// An engine over all ranks of the test, and the bytes of its states.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/runtime_environment.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/zero/engine.hpp"
#include "support/mpi_main.hpp"

namespace shoal::zero::test {

class EngineOfAll {
 public:
  explicit EngineOfAll(const EngineOptions& options)
      : planned_(counted(options)), memory_(planned_), engine_(options, groups(&world()), memory_) {
    EXPECT_EQ(memory_.taken(), planned_);
  }

  Engine& operator*() { return engine_; }
  Engine* operator->() { return &engine_; }

  /// Every byte that this rank keeps between steps: parameters, master parameters, moments.
  std::vector<std::byte> states() {
    engine_.wait_for_parameters();
    std::vector<std::byte> all;
    const auto add = [&](Span<const std::byte> bytes) { all.insert(all.end(), bytes.begin(), bytes.end()); };
    const States& states = engine_.states();
    for (std::size_t u = 0; u < engine_.units().size(); ++u) add(states.parameters(static_cast<int>(u)));
    for (const auto& slices : {states.parameter_slices(States::Which::kept), states.moment_slices(States::Which::kept)}) {
      for (const NamedSlice& slice : slices)
        add(std::as_bytes(std::span<const float>(slice.values.data(), slice.values.size())));
    }
    return all;
  }

  static comm::Communicator& world() { return shoal::test::world().all(); }

 private:
  static RankGroups groups(comm::Communicator* group) { return {world().rank(), world().size(), group}; }
  static Ledger counted(const EngineOptions& options) {
    Memory counting(device::images());
    const Engine engine(options, groups(nullptr), counting);
    return counting.taken();
  }

  Ledger planned_;
  device::DeviceMemory memory_;
  Engine engine_;
};

/// The largest and the smallest number of all ranks; they are equal if all ranks have the same.
inline std::pair<double, double> extremes(double mine) {
  std::vector<double> numbers = {mine, -mine};
  EngineOfAll::world().all_reduce(Span<double>(numbers), comm::Reduce::max).wait();
  return {numbers[0], -numbers[1]};
}

}  // namespace shoal::zero::test
