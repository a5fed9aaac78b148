// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/states.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "shoal/device/memory.hpp"
#include "support/mpi_main.hpp"

namespace shoal::zero {
namespace of_states_test {

std::vector<model::UnitLayout> units() {
  std::vector<model::UnitLayout> result(2);
  result[0].name = "first";
  result[0].add("a.weight", {30, 21}, 0.02F);
  result[0].add("a.bias", {21}, 0, 0.5F);
  result[1].name = "second";
  result[1].add("b.weight", {7, 100}, 0.1F);
  return result;
}

/// (stage, dtype)
class StatesTest : public testing::TestWithParam<std::tuple<int, DType>> {
 protected:
  StatesTest()
      : held_(shard_layouts(units(), zero(), groups(true))), memory_(count()), states_(make(groups(false), memory_)) {}

  static ZeroOptions zero() {
    ZeroOptions options;
    options.stage = std::get<0>(GetParam());
    return options;
  }
  static DType dtype() { return std::get<1>(GetParam()); }
  static RankGroups groups(bool counting) {
    comm::Communicator& group = shoal::test::world().all();
    return {group.rank(), group.size(), counting ? nullptr : &group};
  }
  States make(const RankGroups& rank_groups, Memory& memory) const {
    return {units(), held_, dtype(), {"first", "second"}, rank_groups, memory};
  }
  Ledger count() const {
    Memory counting(device::images());
    const States states = make(groups(true), counting);
    return counting.taken();
  }

  std::vector<ShardLayout> held_;
  device::DeviceMemory memory_;
  States states_;
};

TEST_P(StatesTest, InitialValuesDoNotDependOnRanksAndStage) {
  states_.initialize(11);
  states_.round_masters();
  for (std::size_t u = 0; u < units().size(); ++u) {
    const model::UnitLayout unit = units()[u];
    const int number = static_cast<int>(u);
    std::vector<float> alone(unit.elements);
    model::initialize(unit, 11, {0, unit.elements}, alone);
    const Span<float> master = states_.master(number);
    const Range own = held_[u].optimizer, kept = intersection(held_[u].parameters, own);
    ASSERT_EQ(master.size(), own.size());
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_EQ(master[i], alone[own.begin + i]);
    const std::byte* const first = states_.parameters(number).data();
    for (std::size_t i = kept.begin; i < kept.end; ++i) {
      const std::size_t index = i - held_[u].parameters.begin;
      if (dtype() == DType::f32) {
        EXPECT_EQ(reinterpret_cast<const float*>(first)[index], alone[i]);
      } else {
        EXPECT_EQ(reinterpret_cast<const bf16*>(first)[index].bits, bf16(alone[i]).bits);
      }
    }
    EXPECT_EQ(states_.whole_master(number), alone);
    std::vector<float> memory(300), pieces;  // shards and tensors begin within pieces
    states_.whole_master(number, memory, [&](std::size_t begin, Span<const float> piece) {
      EXPECT_EQ(begin, pieces.size());
      EXPECT_LE(piece.size(), memory.size());
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    });
    EXPECT_EQ(pieces, alone);
  }
}

TEST_P(StatesTest, TakesWhatThePaperSaysAndLessThanOneKibibyteMore) {
  const Stage stage = stages[static_cast<std::size_t>(zero().stage)];
  const auto ranks = static_cast<double>(groups(true).ranks);
  double elements = 0;
  for (const auto& unit : units()) elements += static_cast<double>(unit.elements);
  const bool rounded = dtype() != DType::f32;
  const double kib = 1024.0 * static_cast<double>(units().size());
  const auto expect_within = [&](Kind kind, double bytes, double states) {
    // Shards are whole granules: that of rank 0, the longest, has at most a granule more than its part. Arenas align buffers
    // to 64 bytes.
    EXPECT_LE(static_cast<double>(memory_.taken()[kind]), bytes + states * kib) << name_of(kind);
    if (groups(true).rank != 0) return;
    EXPECT_GE(static_cast<double>(memory_.taken()[kind]), bytes) << name_of(kind);
  };
  const double size = rounded ? 2 : 4;
  expect_within(Kind::parameters, size * elements / (stage.shards_parameters ? ranks : 1), 1);
  expect_within(Kind::master, rounded ? 4 * elements / (stage.shards_optimizer ? ranks : 1) : 0, 1);
  expect_within(Kind::moments, 8 * elements / (stage.shards_optimizer ? ranks : 1), 2);
}

TEST_P(StatesTest, OwnSlicesCoverEveryTensorOnceOverRanks) {
  std::map<std::string, double> mine;  // elements per tensor
  for (const NamedSlice& slice : states_.parameter_slices(States::Which::own)) {
    EXPECT_EQ(slice.range.begin % 16, 0U);
    EXPECT_EQ(slice.values.size(), slice.range.size());
    mine[slice.dataset] = static_cast<double>(slice.range.size());
  }
  ASSERT_EQ(mine.size(), 3U);
  std::vector<double> counts;
  for (const auto& [name, count] : mine) counts.push_back(count);
  shoal::test::world().all().all_reduce(Span<double>(counts), comm::Reduce::sum).wait();
  EXPECT_EQ(counts, (std::vector<double>{21, 30 * 21, 7 * 100}));
}

TEST_P(StatesTest, FirstNotFiniteNamesTheUnit) {
  states_.initialize(1);
  EXPECT_EQ(states_.first_not_finite(), 2);
  if (states_.master(1).empty()) return;  // another rank has it
  states_.master(1).back() = INFINITY;
  EXPECT_EQ(states_.first_not_finite(), 1);
}

TEST_P(StatesTest, MomentsAreListedByNameAndTensor) {
  std::vector<std::string> names;
  for (const NamedSlice& slice : states_.moment_slices(States::Which::kept)) names.push_back(slice.dataset);
  EXPECT_EQ(names,
            (std::vector<std::string>{"/moments/first/a.weight", "/moments/first/a.bias", "/moments/first/b.weight",
                                      "/moments/second/a.weight", "/moments/second/a.bias", "/moments/second/b.weight"}));
}

INSTANTIATE_TEST_SUITE_P(Stages, StatesTest,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(DType::f32, DType::bf16)));

}  // namespace of_states_test
}  // namespace shoal::zero
