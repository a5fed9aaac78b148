// SPDX-License-Identifier: Apache-2.0
// Compares the order of samples with torch's DistributedSampler (data/sampler.json; its world size is the global batch
// here), and tests the properties that any shuffled order must have.
#include "shoal/data/loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/permutation.hpp"
#include "shoal/base/error.hpp"

namespace of_loader_test {

using shoal::Span;
using shoal::data::Loader;
using shoal::data::Permutation;
using shoal::data::SampleOrder;

std::vector<std::size_t> elements(const Permutation& permutation, std::size_t n) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < n; ++i) result.push_back(permutation(i));
  return result;
}

TEST(Permutation, IsOne) {
  for (const std::size_t n : {1U, 2U, 3U, 4U, 5U, 15U, 16U, 17U, 63U, 65U, 1000U, 5000U}) {
    std::vector<std::size_t> order = elements(Permutation(n, 1, 2), n), all(n);
    std::iota(all.begin(), all.end(), 0U);
    EXPECT_EQ(n >= 15 && order == all, false) << n << ": not shuffled";
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, all) << n;
  }
}

TEST(Permutation, DependsOnSeedAndNumberAlone) {
  const auto order = [](std::uint64_t seed, std::uint64_t number) { return elements(Permutation(50, seed, number), 50); };
  EXPECT_EQ(order(1, 2), order(1, 2));
  EXPECT_NE(order(1, 2), order(2, 2));
  EXPECT_NE(order(1, 2), order(1, 3));
  EXPECT_NE(order(1, 2), order(1, 2 + (std::uint64_t{1} << 32U)));
}

/// Expects that all cases occur equally often: chi-square is below its 99.99 % quantile (for f degrees of freedom about f +
/// 3.72 sqrt(2 f) + 9).
void expect_even(const std::vector<double>& counts, double expected) {
  double chi2 = 0;
  for (const double count : counts) chi2 += (count - expected) * (count - expected) / expected;
  const double f = static_cast<double>(counts.size() - 1);
  EXPECT_LT(chi2, f + 3.72 * std::sqrt(2 * f) + 9);
}

TEST(Permutation, IsEven) {
  const std::size_t permutations = 20000;
  for (const std::size_t n : {3U, 7U, 31U}) {
    std::vector<double> places(n), pairs(n * (n - 1));
    for (std::size_t number = 0; number < permutations; ++number) {
      const Permutation permutation(n, 11, number);
      const std::size_t a = permutation(0), b = permutation(1);
      places[a] += 1;
      pairs[a * (n - 1) + (b > a ? b - 1 : b)] += 1;
    }
    expect_even(places, static_cast<double>(permutations) / static_cast<double>(n));
    expect_even(pairs, static_cast<double>(permutations) / static_cast<double>(n * (n - 1)));
  }
}

nlohmann::json sampler_cases() {
  std::ifstream file(std::string(std::getenv("SHOAL_SOURCE")) + "/tests/data/data/sampler.json");
  return nlohmann::json::parse(file)["cases"];
}

TEST(SampleOrder, PadsAndDropsAsDistributedSampler) {
  const nlohmann::json cases = sampler_cases();
  ASSERT_GT(cases.size(), 40U);
  for (const nlohmann::json& c : cases) {
    const std::size_t n = c["length"], global = c["world"], steps = c["samples_per_rank"];
    const bool drop_last = c["drop_last"];
    const SampleOrder shuffled(n, global, true, drop_last, 9), in_order(n, global, false, drop_last, 9);
    ASSERT_EQ(shuffled.steps_per_epoch(), steps) << c;
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      const Permutation permutation(n, 9, epoch);
      std::map<std::size_t, std::size_t> times;
      for (std::size_t t = 0; t < steps; ++t) {
        for (std::size_t i = 0; i < global; ++i) {
          const std::size_t torchs = c["indices_by_rank"][i][t];
          const std::size_t ours = shuffled.sample(epoch * steps + t, i);
          EXPECT_EQ(ours, permutation(torchs)) << c << " epoch " << epoch << " step " << t << " position " << i;
          if (drop_last || epoch == 0) {
            EXPECT_EQ(in_order.sample(epoch * steps + t, i), torchs) << c << " epoch " << epoch << " step " << t;
          } else {
            EXPECT_EQ(in_order.sample(epoch * steps + t, i), ((epoch * steps + t) * global + i) % n) << c << " step " << t;
          }
          ++times[ours];
        }
      }
      EXPECT_EQ(n - times.size(), c["left_out"].get<std::size_t>()) << c;
      EXPECT_EQ(steps * global - times.size(), c["repeated"].get<std::size_t>()) << c;
    }
  }
}

TEST(SampleOrder, InOrderGoesOnAcrossTheEnd) {
  const SampleOrder order(10, 4, false, false, 1);
  EXPECT_EQ(order.sample(2, 1), 9U);
  EXPECT_EQ(order.sample(2, 2), 0U);
  EXPECT_EQ(order.sample(3, 0), 2U);
}

TEST(SampleOrder, InOrderWithoutTheTailStartsEachEpochAtTheFirstSample) {
  const SampleOrder order(10, 4, false, true, 1);
  EXPECT_EQ(order.steps_per_epoch(), 2U);
  EXPECT_EQ(order.sample(1, 3), 7U);
  EXPECT_EQ(order.sample(2, 0), 0U);
  EXPECT_EQ(order.sample(3, 1), 5U);
}

TEST(SampleOrder, AnotherEpochHasAnotherOrder) {
  const SampleOrder order(40, 8, true, false, 1);
  const auto epoch = [&](std::uint64_t e) {
    std::vector<std::size_t> list;
    for (std::size_t k = 0; k < 40; ++k) list.push_back(order.sample(e * 5 + k / 8, k % 8));
    return list;
  };
  EXPECT_NE(epoch(0), epoch(1));
  EXPECT_NE(epoch(1), epoch(2));
  EXPECT_EQ(epoch(1), epoch(1));
}

TEST(SampleOrder, NothingLeftIsRefused) {
  for (const bool shuffle : {true, false}) {
    EXPECT_THAT(
        [&] { SampleOrder(3, 4, shuffle, true, 1); },
        testing::ThrowsMessage<shoal::Error>(testing::HasSubstr("the training split has 3 samples, batch.global is 4")));
  }
}

/// Sample s holds the tokens 100 s, 100 s + 1, ...
class Counting : public shoal::data::Samples {
 public:
  std::size_t count() const override { return 12; }
  void read(std::size_t s, Span<std::int32_t> tokens) const override {
    std::iota(tokens.begin(), tokens.end(), static_cast<std::int32_t>(100 * s));
  }
};

TEST(Loader, MicroBatchesMakeUpTheGlobalBatch) {
  const Counting samples;
  const SampleOrder order(12, 6, true, false, 4);
  Loader loader(samples, order, 2, 3);
  for (std::uint64_t t = 0; t < 4; ++t) {
    for (std::size_t m = 0; m < 3; ++m) {
      const Loader::Batch batch = loader.micro_batch(t, m);
      ASSERT_EQ(batch.inputs.size(), 6U);
      ASSERT_EQ(batch.targets.size(), 6U);
      EXPECT_EQ(batch.first_sample, 2 * m);
      for (std::size_t i = 0; i < 6; ++i) {
        const auto first = static_cast<std::int32_t>(100 * order.sample(t, 2 * m + i / 3));
        EXPECT_EQ(batch.inputs[i], first + static_cast<std::int32_t>(i % 3));
        EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
      }
    }
  }
}

}  // namespace of_loader_test
