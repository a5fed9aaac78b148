// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/states.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/mpi_main.hpp"

namespace shoal::zero {
namespace {

std::vector<model::UnitLayout> units() {
  std::vector<model::UnitLayout> result(2);
  result[0].name = "first";
  result[0].add("a.weight", {30, 21}, 0.02F);
  result[0].add("a.bias", {21}, 0, 0.5F);
  result[1].name = "second";
  result[1].add("b.weight", {7, 100}, 0.1F);
  return result;
}

class StatesTest : public testing::Test {
 protected:
  explicit StatesTest(DType dtype = DType::bf16) : memory_(count(dtype)), states_(make(dtype, memory_)) {}

  static Placement placement(bool counting) {
    comm::Communicator& group = test::world().all();
    return {group.rank(), group.size(), counting ? nullptr : &group};
  }
  static Ledger count(DType dtype) {
    Memory counting;
    const States states(units(), dtype, {"first", "second"}, placement(true), counting);
    return counting.taken();
  }
  static States make(DType dtype, Memory& memory) { return {units(), dtype, {"first", "second"}, placement(false), memory}; }

  Memory memory_;
  States states_;
};

TEST_F(StatesTest, InitialValuesDoNotDependOnTheNumberOfRanks) {
  states_.initialize(11);
  for (std::size_t u = 0; u < units().size(); ++u) {
    const model::UnitLayout unit = units()[u];
    std::vector<float> alone(unit.elements);
    model::initialize(unit, 11, {0, unit.elements}, alone);
    const Span<float> master = states_.master(static_cast<int>(u));
    EXPECT_EQ(std::vector<float>(master.begin(), master.end()), alone);
    const auto* rounded = static_cast<const bf16*>(states_.parameters(static_cast<int>(u)));
    for (std::size_t i = 0; i < unit.elements; ++i) EXPECT_EQ(rounded[i].bits, bf16(alone[i]).bits);
  }
}

TEST_F(StatesTest, OwnSlicesCoverEveryTensorOnceOverRanks) {
  std::map<std::string, double> mine;  // sums of elements per tensor
  for (const NamedSlice& slice : states_.parameter_slices(States::Which::own)) {
    EXPECT_EQ(slice.range.begin % 16, 0U);
    mine[slice.dataset] = static_cast<double>(slice.range.size());
  }
  ASSERT_EQ(mine.size(), 3U);
  std::vector<double> counts;
  for (const auto& [name, count] : mine) counts.push_back(count);
  test::world().all().all_reduce(Span<double>(counts), comm::Reduce::sum).wait();
  EXPECT_EQ(counts, (std::vector<double>{21, 30 * 21, 7 * 100}));
}

TEST_F(StatesTest, FirstNotFiniteNamesTheUnit) {
  states_.initialize(1);
  EXPECT_EQ(states_.first_not_finite(), -1);
  states_.master(1)[99] = INFINITY;
  EXPECT_EQ(states_.first_not_finite(), 1);
}

TEST_F(StatesTest, MomentsAreListedByNameAndTensor) {
  std::vector<std::string> names;
  for (const NamedSlice& slice : states_.moment_slices(States::Which::whole)) names.push_back(slice.dataset);
  EXPECT_EQ(names,
            (std::vector<std::string>{"/moments/first/a.weight", "/moments/first/a.bias", "/moments/first/b.weight",
                                      "/moments/second/a.weight", "/moments/second/a.bias", "/moments/second/b.weight"}));
}

}  // namespace
}  // namespace shoal::zero
