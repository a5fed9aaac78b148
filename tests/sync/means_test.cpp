// SPDX-License-Identifier: Apache-2.0
// Means over nodes: the error of many quantized ones, numbers that are not finite, means in flight while nodes train, and
// checkpoints of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "shoal/base/pump.hpp"
#include "sync/memory_checkpoint.hpp"
#include "sync/simulation.hpp"
#include "sync/toy.hpp"

namespace shoal::sync::test {
namespace of_means_test {

std::size_t node() { return static_cast<std::size_t>(shoal::test::world().across().rank()); }
std::size_t nodes() { return static_cast<std::size_t>(shoal::test::world().nodes()); }

SyncOptions localsgd(const SyncOptions& more) {
  SyncOptions options = more;
  options.kind = SyncKind::localsgd;
  options.localsgd_frequency = 2;
  return options;
}

void begin(Toy& toy) {
  toy.fill([](std::size_t u, std::size_t i) { return start(first_of(u) + i); });
  toy.synchroniser().start_from_masters();
}

/// The gradients do not depend on the parameters, so training does not correct an error of a mean: only error feedback can.
void step(Toy& toy, std::size_t t) {
  toy.train(t, local_rate, [&](std::size_t u, std::size_t i, float) { return target(node(), t, first_of(u) + i); });
  toy.synchroniser().after_step(t, local_rate);
}

/// Root mean square of the difference between the nodes' mean and the exact one, after each of `means` means.
std::vector<double> errors_of_means(const SyncOptions& options, std::size_t means) {
  Toy toy(options, units(), 0, 0);
  begin(toy);
  std::vector<double> exact, errors;
  for (std::size_t i = 0; i < elements(); ++i) exact.push_back(start(i));
  for (std::size_t t = 1; t <= 2 * means; ++t) {
    step(toy, t);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      for (std::size_t n = 0; n < nodes(); ++n) exact[i] -= local_rate * target(n, t, i) / static_cast<double>(nodes());
    }
    if (t % 2 == 1) continue;
    const std::vector<float> x = toy.whole();
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - exact[i]) * (x[i] - exact[i]);
    errors.push_back(std::sqrt(sum / static_cast<double>(x.size())));
  }
  return errors;
}

/// Measured after 32 means of 2 nodes, as multiples of the error after the first: 1.0; 3.6 if only the owners keep the error
/// of the mean, 5.4 if no errors are kept.
SHOAL_RUN_IF(Means, ErrorsOfManyQuantizedOnesDoNotAddUp, ranks > 1);
TEST(Means, ErrorsOfManyQuantizedOnesDoNotAddUp) {
  divide_into_nodes(1);
  const std::vector<double> quantized = errors_of_means(localsgd({.average_dtype = AverageType::int8}), 32);
  const std::vector<double> rounded = errors_of_means(localsgd({.average_dtype = AverageType::bf16}), 32);
  const double first = quantized.front(), last = quantized.back();
  EXPECT_GT(first, 1e-5) << "the effect of 8 bits is visible";
  EXPECT_LT(last, 1.5 * first);
  EXPECT_LT(last, rounded.back()) << "in 16 bits no errors are kept";
}

/// The quantization block with the value that is not finite becomes NaN on all nodes; other blocks, and all residuals, stay
/// finite.
SHOAL_RUN_IF(Means, WhatIsNotFiniteIsPassedOn, ranks > 1);
TEST(Means, WhatIsNotFiniteIsPassedOn) {
  divide_into_nodes(1);
  for (const float broken : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Toy toy(localsgd({.average_dtype = AverageType::int8}), units(), 0, 0);
    begin(toy);
    step(toy, 1);
    toy.train(2, local_rate, [&](std::size_t u, std::size_t i, float) {
      return u == 0 && i == 300 && node() == 1 ? broken : target(node(), 2, first_of(u) + i);
    });
    toy.synchroniser().after_step(2, local_rate);
    const std::vector<float> x = toy.whole();
    for (std::size_t i = 0; i < x.size(); ++i) {
      // Sub-shards begin at whole granules, which are several blocks.
      EXPECT_EQ(std::isnan(x[i]), i / quant_block == 300 / quant_block) << "element " << i;
    }
    std::size_t residuals = 0;
    for (const NamedSlice& slice : toy.synchroniser().state(2).own) {
      if (!slice.dataset.starts_with("/average/lost/")) continue;
      for (const float lost : slice.values) EXPECT_TRUE(std::isfinite(lost)) << slice.dataset;
      residuals += slice.values.size();
    }
    EXPECT_GT(residuals, 0U);
  }
}

/// Kernels poll communication: a mean progresses from its sum to its all-gather without a rank that waits for it.
SHOAL_RUN_IF(Means, ArriveWhileNodesTrain, ranks > 1);
TEST(Means, ArriveWhileNodesTrain) {
  divide_into_nodes(1);
  for (const AverageType sent : {AverageType::fp32, AverageType::int8}) {
    Toy toy(localsgd({.average_dtype = sent, .average_overlap = true}), units(), 0, 0);
    begin(toy);
    step(toy, 1);
    comm::reset_traffic();
    step(toy, 2);
    ASSERT_TRUE(toy.synchroniser().mean_in_flight());
    const auto begin = std::chrono::steady_clock::now();
    while (detail::pump_function != nullptr && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) pump();
    EXPECT_EQ(detail::pump_function, nullptr) << "all operations are complete";
    EXPECT_GT(comm::traffic()["all_gather"].total(), 0U);
    const std::vector<float> before = toy.whole();
    toy.synchroniser().wait_for_mean();
    EXPECT_EQ(toy.whole(), before) << "it is applied at its step";
    step(toy, 3);
    EXPECT_FALSE(toy.synchroniser().mean_in_flight());
  }
}

/// A mean is in flight when the checkpoint is written: the run that continues from it has the same bits.
TEST(Means, ContinueFromACheckpoint) {
  divide_into_nodes(1);
  for (const AverageType sent : {AverageType::fp32, AverageType::bf16, AverageType::int8}) {
    const SyncOptions options = localsgd({.average_dtype = sent, .average_overlap = true});
    std::optional<MemoryCheckpoint> checkpoint;
    std::vector<std::vector<float>> straight;  // before the second run: messages of two runs would mix
    {
      Toy toy(options, units(), 0, 0);
      begin(toy);
      for (std::size_t t = 1; t <= 4; ++t) step(toy, t);
      EXPECT_EQ(toy.synchroniser().mean_in_flight(), nodes() > 1);
      checkpoint.emplace(toy.synchroniser().state(4), 4);
      for (std::size_t t = 5; t <= 8; ++t) {
        step(toy, t);
        straight.push_back(toy.whole());
      }
    }
    Toy toy(options, units(), 0, 0);
    const auto read = [&](const std::vector<NamedSlice>& slices) { checkpoint->read(slices); };
    read(toy.states().parameter_slices(zero::States::Which::kept));
    read(toy.states().moment_slices(zero::States::Which::kept));
    EXPECT_TRUE(toy.synchroniser().restore(checkpoint->description(), read).empty());
    for (std::size_t t = 5; t <= 8; ++t) {
      step(toy, t);
      EXPECT_EQ(toy.whole(), straight[t - 5]) << name_of(sent) << ", step " << t;
    }
  }
}

}  // namespace of_means_test
}  // namespace shoal::sync::test
