// SPDX-License-Identifier: Apache-2.0
// A unit and its copy: the gradient is the sum of both, its square counts once, and the copy gets what the unit was updated
// to. On two stages of a pipeline all have the bits that they have on one rank.
#include "zero/tied_copies.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "support/mpi_main.hpp"

namespace shoal::zero {
namespace of_copies_test {

constexpr std::size_t micro_batches = 4;
constexpr int original = 0, block = 1, copy = 2;

comm::World& world() { return shoal::test::world(); }

std::vector<model::UnitLayout> units() {
  std::vector<model::UnitLayout> result(3);
  result[original].add("token", {30, 40}, 0.02F);
  result[original].add("position", {9, 40}, 0.02F);
  result[block].add("weight", {50, 40}, 0.02F);
  result[copy].elements = result[original].elements;
  result[copy].copy_of = original;
  for (std::size_t u = 0; u < result.size(); ++u) result[u].name = text("unit ", u);
  return result;
}

/// A number of which many different sums are rounded.
float value(int unit, std::size_t micro_batch, std::size_t element) {
  return std::sin(static_cast<float>(static_cast<std::size_t>(unit) * 7919 + micro_batch * 104729 + element)) *
         std::ldexp(1.0F, static_cast<int>(element % 9));
}

/// What a rank keeps of the units of `parts`, or of all.
struct Rank {
  struct All {
    std::vector<ShardLayout> layouts;
    AccumulationPlan accumulation;
    States states;
    TiedCopies copies;
    Gradients gradients;
    All(int stage, DType dtype, const std::vector<model::Part>& parts, const RankGroups& groups, Memory& memory)
        : layouts(shard_layouts(units(), {.stage = stage}, groups, parts)),
          accumulation(micro_batches, groups.ranks, groups.ranks > 1 && stage > 1),
          states(units(), layouts, dtype, {}, groups, memory),
          copies(units(), layouts, groups, dtype, memory),
          gradients(units(), layouts, sweeps_of(parts, units()), accumulation, groups,
                    {.bucket_elements = 1500, .dtype = dtype}, memory) {}
  };

  Rank(int stage, DType dtype, const std::vector<model::Part>& parts, const RankGroups& groups)
      : sweeps(sweeps_of(parts, units())),
        rank(groups.rank),
        planned(counted(stage, dtype, parts, groups)),
        memory(planned),
        all(stage, dtype, parts, groups, memory) {
    EXPECT_EQ(memory.taken(), planned);
    all.states.initialize(3);
    all.states.round_masters();
    all.copies.renew(all.states);
  }
  static Ledger counted(int stage, DType dtype, const std::vector<model::Part>& parts, const RankGroups& groups) {
    Memory counting(device::images());
    const All planned(stage, dtype, parts, {groups.rank, groups.ranks, nullptr}, counting);
    return counting.taken();
  }

  bool has(int unit) const { return all.layouts[static_cast<std::size_t>(unit)].elements > 0; }

  /// A step's gradients. wrong: added to an element of this unit's gradient.
  Norm reduce(int wrong_unit = -1, float wrong = 0) {
    for (const std::vector<int>& sweep : sweeps) {
      for (std::size_t turn = 0; turn < all.accumulation.turns(); ++turn) {
        const std::size_t m = all.accumulation.micro_batch_of_turn(turn, rank);
        for (const int unit : sweep) {
          float* const gradient = all.gradients.of(unit);
          const std::size_t elements = units()[static_cast<std::size_t>(unit)].elements;
          for (std::size_t i = 0; i < elements; ++i) gradient[i] = value(unit, m, i);
          if (unit == wrong_unit && m == 1) gradient[elements - 1] += wrong;
          all.gradients.complete(unit);
        }
      }
    }
    all.gradients.finish_step();
    all.copies.add_gradients(all.gradients);
    all.gradients.keep_in_shards(true);
    all.gradients.start_gather();
    all.gradients.measure_norm();
    device::wait_for_queue();
    const Norm norm = all.gradients.norm();
    all.gradients.wait_for_gather();
    return norm;
  }

  std::vector<std::byte> gradient(int unit) {
    const Span<std::byte> bytes = all.gradients.shard(unit, all.layouts[static_cast<std::size_t>(unit)].shard);
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::byte> parameters(int unit) {
    const Range shard = all.layouts[static_cast<std::size_t>(unit)].shard,
                kept = all.layouts[static_cast<std::size_t>(unit)].parameters;
    const std::size_t size = size_of(all.states.dtype());
    const Span<std::byte> bytes =
        all.states.parameters(unit).subspan((shard.begin - kept.begin) * size, shard.size() * size);
    return {bytes.begin(), bytes.end()};
  }

  Sweeps sweeps;
  int rank;
  Ledger planned;
  device::DeviceMemory memory;
  All all;
};

/// Two stages, each with half of the ranks; one rank has all units.
class CopiesTest : public testing::TestWithParam<std::tuple<int, DType>> {
 protected:
  static bool divides() { return world().size() > 1; }
  static void SetUpTestSuite() {
    if (divides()) world().make_groups(shoal::test::comm_options(), {.tensor = 1, .pipeline = 2});
  }
  static void TearDownTestSuite() { world().make_groups(shoal::test::comm_options()); }

  static RankGroups of_stage() { return {world().data().rank(), world().data().size(), &world().data()}; }
  static Rank whole() { return {std::get<0>(GetParam()), std::get<1>(GetParam()), {}, of_stage()}; }
  static Rank divided() {
    RankGroups groups = of_stage();
    groups.model = &world().model();
    const model::Part part = world().position().pipeline == 0 ? model::Part{{0, 1}} : model::Part{{1, 3}};
    return {std::get<0>(GetParam()), std::get<1>(GetParam()), {part}, groups};
  }
};

TEST_P(CopiesTest, HaveTheGradientOfBoth) {
  Rank rank = whole();
  rank.reduce();
  if (std::get<1>(GetParam()) != DType::f32) return;
  const Range shard = rank.all.layouts[original].shard;
  const std::vector<std::byte> bytes = rank.gradient(original);
  for (std::size_t i = 0; i < shard.size(); ++i) {
    double sum = 0, largest = 0;
    for (const int unit : {original, copy}) {
      for (std::size_t m = 0; m < micro_batches; ++m) {
        sum += value(unit, m, shard.begin + i);
        largest += std::abs(value(unit, m, shard.begin + i));
      }
    }
    float found = 0;
    std::memcpy(&found, bytes.data() + i * sizeof found, sizeof found);
    EXPECT_NEAR(found, sum, 3 * 0x1p-24 * largest) << "a tree of three levels, element " << shard.begin + i;
  }
}

TEST_P(CopiesTest, ChangeNoBitOnTwoStages) {
  Rank one = whole(), mine = divides() ? divided() : whole();
  EXPECT_EQ(one.parameters(copy), one.parameters(original));
  const Norm expected = one.reduce(), norm = mine.reduce();
  EXPECT_EQ(norm.value, expected.value);
  EXPECT_EQ(norm.square, expected.square);
  if (mine.has(original)) {
    EXPECT_EQ(mine.gradient(original), one.gradient(original));
  }
  if (mine.has(copy)) {
    EXPECT_EQ(mine.parameters(copy), one.parameters(original));
  }
}

/// The copy has what overflows: the norm says so, of the unit whose gradient it is.
TEST_P(CopiesTest, ThatOverflowAreSeen) {
  for (const float wrong : {INFINITY, NAN}) {
    Rank rank = divides() ? divided() : whole();
    const Norm norm = rank.reduce(copy, wrong);
    EXPECT_FALSE(std::isfinite(norm.value));
    EXPECT_EQ(norm.non_finite_unit, original);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CopiesTest,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(DType::f32, DType::bf16)));

}  // namespace of_copies_test
}  // namespace shoal::zero
