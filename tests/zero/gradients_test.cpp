// SPDX-License-Identifier: Apache-2.0
// Gradients summed over micro-batches and ranks have the bits of the tree in [Note: one trajectory].
#include "zero/gradients.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <memory>
#include <random>
#include <tuple>

#include "shoal/base/error.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/kernels/storage.hpp"
#include "shoal/zero/stages.hpp"
#include "support/mpi_main.hpp"
#include "support/units.hpp"

namespace shoal::zero {
namespace of_gradients_test {

std::vector<model::UnitLayout> units(std::initializer_list<std::size_t> sizes = {3000, 16, 1040}) {
  std::vector<model::UnitLayout> result = shoal::test::units_of(sizes);
  result.front().early_gradient = true;
  return result;
}

/// The gradient of micro-batch m: numbers whose sum depends on the order of addition.
std::vector<float> leaf(std::size_t unit, std::size_t elements, std::size_t m) {
  std::mt19937 generator(static_cast<unsigned>(unit * 1000 + m));
  std::normal_distribution<float> normal;
  std::vector<float> values(elements);
  for (float& v : values) v = std::ldexp(normal(generator), static_cast<int>(generator() % 20));
  return values;
}

std::vector<float> rounded(std::vector<float> values, DType dtype) {
  if (dtype == DType::bf16) {
    for (float& v : values) v = static_cast<float>(bf16(v));
  }
  return values;
}

std::vector<float> add(std::vector<float> a, const std::vector<float>& b, DType dtype) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return rounded(a, dtype);
}

/// The sum as one rank makes it: in each round a binary tree over 2^k gradients; the rounds are added in order.
std::vector<float> expected(std::size_t unit, std::size_t elements, std::size_t micro_batches, DType dtype) {
  const AccumulationPlan one(micro_batches, 1);
  std::vector<float> total;
  for (std::size_t round = 0; round < one.rounds; ++round) {
    std::vector<std::vector<float>> level;
    for (std::size_t i = 0; i < one.micro_steps_per_round; ++i) {
      level.push_back(rounded(leaf(unit, elements, round * one.micro_steps_per_round + i), dtype));
    }
    while (level.size() > 1) {
      std::vector<std::vector<float>> next;
      for (std::size_t i = 0; i < level.size(); i += 2) next.push_back(add(level[i], level[i + 1], dtype));
      level = next;
    }
    total = round == 0 ? level[0] : add(total, level[0], dtype);
  }
  return total;
}

struct Result {
  std::vector<std::vector<float>> gradients;  // by unit: the sums that this rank needs for its update
  std::vector<ShardLayout> held;
  Norm norm;
};

/// The order in which sweeps have their turns: order[i] is the one that has its next turn.
struct Sequence {
  Sweeps sweeps;
  std::vector<std::size_t> order;
};

/// Each sweep has a turn `ahead` turns before the next sweep has it: 0: as soon as it can.
Sequence staggered(const Sweeps& sweeps, std::size_t turns, std::size_t ahead) {
  Sequence sequence{sweeps, {}};
  for (std::size_t time = 0; time < turns + ahead * (sweeps.size() - 1); ++time) {
    for (std::size_t s = 0; s < sweeps.size(); ++s) {
      if (time >= ahead * s && time < turns + ahead * s) sequence.order.push_back(s);
    }
  }
  return sequence;
}

/// The turn of one sweep on this rank. An early gradient is the first to be begun.
void compute(Gradients& gradients, const std::vector<model::UnitLayout>& layouts, const std::vector<int>& sweep,
             std::size_t micro_batch) {
  const auto write = [&](int u, std::size_t part, std::size_t parts) {
    const auto values = leaf(static_cast<std::size_t>(u), layouts[static_cast<std::size_t>(u)].elements, micro_batch);
    const std::size_t begin = values.size() * part / parts, end = values.size() * (part + 1) / parts;
    std::copy(values.begin() + static_cast<std::ptrdiff_t>(begin), values.begin() + static_cast<std::ptrdiff_t>(end),
              gradients.of(u) + begin);
  };
  const auto early = [&](int u) { return layouts[static_cast<std::size_t>(u)].early_gradient; };
  for (const int u : sweep) {
    if (early(u)) write(u, 0, 2);
  }
  for (const int u : sweep) {
    early(u) ? write(u, 1, 2) : write(u, 0, 1);
    gradients.complete(u);
  }
}

/// ahead: turns by which each sweep is ahead of the next one.
Result run(const std::vector<model::UnitLayout>& layouts, int stage, std::size_t micro_batches,
           const GradientOptions& options, const Sweeps& sweeps, std::size_t ahead) {
  comm::Communicator& group = shoal::test::world().all();
  const AccumulationPlan accumulation(micro_batches, group.size(),
                                      group.size() > 1 && stages[static_cast<std::size_t>(stage)].shards_gradients);
  const RankGroups groups{group.rank(), group.size(), &group};
  ZeroOptions zero;
  zero.stage = stage;
  Result result;
  result.held = shard_layouts(layouts, zero, groups);
  Memory counting(device::images());
  const Gradients planned(layouts, result.held, sweeps, accumulation, {groups.rank, groups.ranks, nullptr}, options,
                          counting);
  device::DeviceMemory memory(counting.taken());
  Gradients gradients(layouts, result.held, sweeps, accumulation, groups, options, memory);
  EXPECT_EQ(memory.taken(), counting.taken());
  const Sequence sequence = staggered(sweeps, accumulation.turns(), ahead);
  std::vector<std::size_t> turn(sweeps.size(), 0);
  for (const std::size_t sweep : sequence.order) {
    const std::size_t t = turn[sweep]++;
    compute(gradients, layouts, sweeps[sweep], accumulation.micro_batch_of_turn(t, group.rank()));
  }
  gradients.finish_step();
  gradients.start_gather();
  gradients.measure_norm();
  device::wait_for_queue();
  result.norm = gradients.norm();
  gradients.wait_for_gather();
  for (std::size_t u = 0; u < layouts.size(); ++u) {
    const Range own = result.held[u].optimizer;
    std::vector<float> values(own.size());
    kernels::widen(options.dtype, own.size(), gradients.reduced(static_cast<int>(u), own).data(), values.data());
    result.gradients.push_back(values);
  }
  return result;
}

std::vector<float> part(const std::vector<float>& all, Range range) {
  return {all.begin() + static_cast<std::ptrdiff_t>(range.begin), all.begin() + static_cast<std::ptrdiff_t>(range.end)};
}

/// (stage, micro-batches of a step)
class Gradient : public testing::TestWithParam<std::tuple<int, std::size_t>> {
 protected:
  /// Compares the gradients with the tree, and those of all these options with each other.
  void expect_tree(const std::vector<model::UnitLayout>& layouts, const std::vector<GradientOptions>& all) const {
    expect_tree(layouts, all, sweep_of_all(layouts.size()), 0);
  }
  void expect_tree(const std::vector<model::UnitLayout>& layouts, const std::vector<GradientOptions>& all,
                   const Sweeps& sweeps, std::size_t ahead) const {
    const auto [stage, m] = GetParam();
    const int ranks = shoal::test::world().size();
    if (m % static_cast<std::size_t>(ranks) != 0) return;  // such batches are refused earlier
    const bool promised = std::has_single_bit(static_cast<unsigned>(ranks));
    Result first;
    for (const GradientOptions& options : all) {
      const DType dtype = options.dtype;
      const Result result = run(layouts, stage, m, options, sweeps, ahead);
      double squares = 0;
      for (std::size_t u = 0; u < layouts.size(); ++u) {
        const std::vector<float> exact = expected(u, layouts[u].elements, m, dtype);
        for (const float v : exact) squares += static_cast<double>(v) * v;
        if (promised) {
          EXPECT_EQ(result.gradients[u], part(exact, result.held[u].optimizer))
              << "unit " << u << ", buckets of " << options.bucket_elements;
        }
      }
      // On other numbers of ranks rounding differs at each of at most log2(24) + 3 nodes.
      const double bound = promised ? 1e-12 : 8 * (dtype == DType::f32 ? 0x1p-24 : 0x1p-8);
      EXPECT_NEAR(result.norm.value, std::sqrt(squares), bound * std::sqrt(squares));
      if (first.gradients.empty()) first = result;
      EXPECT_EQ(result.gradients, first.gradients);
      EXPECT_EQ(result.norm.value, first.norm.value);
    }
  }

  /// For several bucket sizes, with and without overlap.
  void expect_tree(DType dtype) const {
    expect_tree(units(), {{1, true, dtype}, {2048, true, dtype}, {2048, false, dtype}, {1 << 20, false, dtype}});
  }
};

TEST_P(Gradient, IsTheTreesSumBitByBitForAnyBucketSize) { expect_tree(DType::f32); }
TEST_P(Gradient, IsRoundedAtEveryNodeOfTheTree) { expect_tree(DType::bf16); }

/// Units as large as a bucket: in stages 2 and 3 two or three of them are written to memory from which a bucket was sent.
/// Two buckets may be unfinished then, and the older one has to be finished first.
TEST_P(Gradient, IsNotWrittenToMemoryThatABucketStillReads) {
  expect_tree(units({3000, 2048, 2048, 2048, 2048, 16}), {{2048, true}, {2048, false}});
}

/// Several micro-batches are in flight, as in a pipeline: the last units are turns, and even rounds, ahead of the first
/// ones.
TEST_P(Gradient, IsTheSameIfUnitsAreInDifferentTurns) {
  const std::vector<model::UnitLayout> layouts = units({3000, 2048, 16, 1040, 512});
  const Sweeps sweeps = {{4}, {3, 2, 1}, {0}};
  for (const std::size_t ahead : {1U, 2U, 100U}) {  // 100: all turns of a sweep before the next one
    expect_tree(layouts, {{1, true}, {2048, true}, {2048, false}}, sweeps, ahead);
    expect_tree(layouts, {{1 << 20, true, DType::bf16}}, sweeps, ahead);
  }
}

INSTANTIATE_TEST_SUITE_P(StagesAndMicroBatches, Gradient,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(4, 8, 12, 20, 24)));

/// In stages 2 and 3 all sweeps write to one memory, from which buckets are sent; in stages 0 and 1 each has its own.
TEST(SweepsOfGradients, DoNotInterruptEachOtherWhereTheyShareMemory) {
  comm::Communicator& all = shoal::test::world().all();
  const auto ranks = static_cast<std::size_t>(all.size());
  for (const int stage : {1, 2}) {
    const auto make = [&](comm::Communicator* group, Memory& memory) {
      const RankGroups groups{all.rank(), all.size(), group};
      return std::make_unique<Gradients>(units(), shard_layouts(units(), {.stage = stage}, groups), Sweeps{{2}, {1, 0}},
                                         AccumulationPlan(ranks, all.size(), stage == 2), groups, GradientOptions{}, memory);
    };
    Memory counting(device::images());
    make(nullptr, counting);
    device::DeviceMemory memory(counting.taken());
    const auto gradients = make(&all, memory);
    gradients->of(2);
    if (stage == 2) {
      EXPECT_THROW(gradients->of(1), Error);
    } else {
      EXPECT_NO_THROW(gradients->of(1));
    }
  }
}
SHOAL_RUN_IF(SweepsOfGradients, DoNotInterruptEachOtherWhereTheyShareMemory, ranks > 1);

/// Stage 0 with one micro-batch per rank.
class WholeGradients : public testing::Test {
 protected:
  static Gradients make(const std::vector<ShardLayout>& held, comm::Communicator* group, Memory& memory) {
    const auto ranks = static_cast<std::size_t>(all().size());
    return {units(), held,  sweep_of_all(3), AccumulationPlan(ranks, all().size()), {all().rank(), all().size(), group},
            {},      memory};
  }
  static Ledger counted(const std::vector<ShardLayout>& held) {
    Memory counting(device::images());
    const Gradients planned = make(held, nullptr, counting);
    return counting.taken();
  }
  static comm::Communicator& all() { return shoal::test::world().all(); }

  /// Runs a backward in which one rank writes a NaN into this unit; -1: no rank does.
  void backward(int broken_unit) {
    for (int u = 2; u >= 0; --u) {
      float* const gradient = gradients_.of(u);
      if (u == broken_unit && all().rank() == all().size() - 1) gradient[3] = std::nanf("");
      gradients_.complete(u);
    }
    gradients_.finish_step();
  }

  std::vector<ShardLayout> held_ = shard_layouts(units(), {}, {all().rank(), all().size(), nullptr});
  device::DeviceMemory memory_{counted(held_)};
  Gradients gradients_ = make(held_, &all(), memory_);
};

TEST_F(WholeGradients, ATurnIsNotBegunWithoutAllGradientsOfTheOneBefore) {
  gradients_.of(2);
  gradients_.complete(2);
  EXPECT_THROW(gradients_.complete(2), Error) << "twice in a turn";
  EXPECT_THROW(gradients_.of(2), Error) << "there is one turn";
  EXPECT_THROW(gradients_.finish_step(), Error) << "units 1 and 0 are missing";
}

TEST_F(WholeGradients, TheNormNamesTheUnitThatIsNotFinite) {
  backward(1);
  gradients_.start_gather();
  gradients_.measure_norm();
  device::wait_for_queue();
  const Norm norm = gradients_.norm();
  gradients_.wait_for_gather();
  EXPECT_TRUE(std::isnan(norm.value));
  EXPECT_EQ(norm.non_finite_unit, 1);
}

SHOAL_RUN_IF(WholeGradients, AreNotUsedBeforeTheirGatherWasStarted, ranks > 1);  // one rank has nothing to gather
TEST_F(WholeGradients, AreNotUsedBeforeTheirGatherWasStarted) {
  backward(-1);
  EXPECT_THROW(gradients_.wait_for_gather(), Error);
  gradients_.start_gather();
  gradients_.wait_for_gather();
}

}  // namespace of_gradients_test
}  // namespace shoal::zero
