// SPDX-License-Identifier: Apache-2.0
// Gradients summed over micro-batches and ranks against the tree of [Note: one trajectory], bit by bit.
#include "shoal/zero/gradients.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "shoal/zero/partition.hpp"
#include "support/mpi_main.hpp"

namespace shoal::zero {
namespace {

std::vector<model::UnitLayout> units() {
  std::vector<model::UnitLayout> result;
  for (const std::size_t size : {3000UL, 16UL, 1040UL}) {
    result.emplace_back();
    result.back().name = "unit" + std::to_string(result.size());
    result.back().elements = size;
  }
  return result;
}

/// The gradient of micro-batch m, of numbers whose sum depends on the order.
std::vector<float> leaf(std::size_t unit, std::size_t elements, std::size_t m) {
  std::mt19937 generator(static_cast<unsigned>(unit * 1000 + m));
  std::normal_distribution<float> normal;
  std::vector<float> values(elements);
  for (float& v : values) v = std::ldexp(normal(generator), static_cast<int>(generator() % 20));
  return values;
}

std::vector<float> add(std::vector<float> a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// One rank's view: rounds of 2^k leaves in a binary tree, rounds added in order.
std::vector<float> expected(std::size_t unit, std::size_t elements, std::size_t micro_batches) {
  const Turns one(micro_batches, 1);
  std::vector<float> total;
  for (std::size_t round = 0; round < one.rounds; ++round) {
    std::vector<std::vector<float>> level;
    for (std::size_t i = 0; i < one.per_round; ++i) level.push_back(leaf(unit, elements, round * one.per_round + i));
    while (level.size() > 1) {
      std::vector<std::vector<float>> next;
      for (std::size_t i = 0; i < level.size(); i += 2) next.push_back(add(level[i], level[i + 1]));
      level = next;
    }
    total = round == 0 ? level[0] : add(total, level[0]);
  }
  return total;
}

struct Result {
  std::vector<std::vector<float>> gradients;
  Norm norm;
};

Result run(std::size_t micro_batches, const GradientOptions& options) {
  comm::Communicator& group = test::world().all();
  const auto layouts = units();
  const Turns turns(micro_batches, group.size());
  Memory counting;
  const Gradients planned(layouts, turns, {group.rank(), group.size(), nullptr}, options, counting);
  Memory memory(counting.taken());
  Gradients gradients(layouts, turns, {group.rank(), group.size(), &group}, options, memory);
  EXPECT_EQ(memory.taken(), counting.taken());
  for (std::size_t round = 0; round < turns.rounds; ++round) {
    for (std::size_t turn = 0; turn < turns.per_round; ++turn) {
      gradients.begin_turn(round, turn);
      for (int u = static_cast<int>(layouts.size()) - 1; u >= 0; --u) {
        const auto values = leaf(static_cast<std::size_t>(u), layouts[static_cast<std::size_t>(u)].elements,
                                 turns.micro_batch(round, turn, group.rank()));
        std::copy(values.begin(), values.end(), gradients.of(u));
        gradients.complete(u);
      }
    }
    gradients.finish_round();
  }
  Result result;
  result.norm = gradients.norm();
  gradients.gather();
  for (std::size_t u = 0; u < layouts.size(); ++u) {
    const auto reduced = gradients.reduced(static_cast<int>(u));
    result.gradients.emplace_back(reduced.begin(), reduced.end());
  }
  return result;
}

class Gradient : public testing::TestWithParam<std::size_t> {};

TEST_P(Gradient, IsTheTreesSumBitByBitForAnyMessageSize) {
  const std::size_t m = GetParam();
  const int ranks = test::world().size();
  if (m % static_cast<std::size_t>(ranks) != 0) return;  // batch sizes that do not divide are refused before this
  const bool promised = std::has_single_bit(static_cast<unsigned>(ranks));
  const auto layouts = units();
  Result first;
  for (const GradientOptions options :
       {GradientOptions{1, true}, GradientOptions{2048, true}, GradientOptions{1 << 20, false}}) {
    const Result result = run(m, options);
    double squares = 0;
    for (std::size_t u = 0; u < layouts.size(); ++u) {
      const std::vector<float> exact = expected(u, layouts[u].elements, m);
      for (const float v : exact) squares += static_cast<double>(v) * v;
      if (promised) {
        EXPECT_EQ(result.gradients[u], exact) << "unit " << u << ", messages of " << options.message_elements;
      }
    }
    EXPECT_NEAR(result.norm.value, std::sqrt(squares), 1e-6 * std::sqrt(squares));
    if (first.gradients.empty()) first = result;
    EXPECT_EQ(result.gradients, first.gradients);
    EXPECT_EQ(result.norm.value, first.norm.value);
  }
}
INSTANTIATE_TEST_SUITE_P(MicroBatches, Gradient, testing::Values(4, 8, 12, 20, 24));

TEST(GradientNorm, NamesTheUnitThatIsNotFinite) {
  comm::Communicator& group = test::world().all();
  const auto layouts = units();
  const Turns turns(static_cast<std::size_t>(group.size()), group.size());
  Memory counting;
  const Gradients planned(layouts, turns, {group.rank(), group.size(), nullptr}, {}, counting);
  Memory memory(counting.taken());
  Gradients gradients(layouts, turns, {group.rank(), group.size(), &group}, {}, memory);
  gradients.begin_turn(0, 0);
  for (int u = 2; u >= 0; --u) {
    if (u == 1 && group.rank() == group.size() - 1) gradients.of(u)[3] = std::nanf("");
    gradients.complete(u);
  }
  gradients.finish_round();
  const Norm norm = gradients.norm();
  gradients.gather();
  EXPECT_TRUE(std::isnan(norm.value));
  EXPECT_EQ(norm.broken_unit, 1);
}

}  // namespace
}  // namespace shoal::zero
