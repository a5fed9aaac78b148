// SPDX-License-Identifier: Apache-2.0
// The latency-bandwidth model: its fit, and the error text for missing measurements.
#include "shoal/plan/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace shoal::plan {
namespace of_network_test {

TEST(Fit, FindsTheLineOfTheSamples) {
  std::vector<Sample> samples;
  for (double bytes = 256; bytes < 1e8; bytes *= 4) samples.push_back({bytes, 20e-6 + 0.5e-9 * bytes});
  const Line line = fit(samples).value();
  EXPECT_NEAR(line.latency_s, 20e-6, 1e-12);
  EXPECT_NEAR(line.s_per_byte, 0.5e-9, 1e-16);
  EXPECT_LT(worst_deviation(line, samples), 1e-6);
  samples.back().seconds *= 2;
  EXPECT_NEAR(worst_deviation(line, samples), 0.5, 1e-6);
}

/// A token bucket of 256 KiB before a link of 100 Mbit/s.
TEST(Fit, IsNotMisledByBuffers) {
  std::vector<Sample> samples;
  for (double bytes = 256; bytes < 2e7; bytes *= 4) {
    samples.push_back({bytes, 100e-6 + std::max(1e-9 * bytes, (bytes - 262144) * 80e-9)});
  }
  const Line line = fit(samples).value();
  EXPECT_NEAR(line.s_per_byte, 80e-9, 0.02 * 80e-9);
  EXPECT_NEAR(line.latency_s, 100e-6, 50e-6);
}

TEST(Fit, IsNeverNegative) {
  const Line falling = fit({{1, 2e-6}, {1000, 1e-6}}).value();
  EXPECT_EQ(falling.s_per_byte, 0);
  const Line below_zero = fit({{1e3, 1e-9}, {1e6, 1e-3}}).value();
  EXPECT_EQ(below_zero.latency_s, 0);
  EXPECT_GT(below_zero.s_per_byte, 0);
  EXPECT_FALSE(fit({{1000, 1e-3}}).has_value());
  EXPECT_FALSE(fit({{1000, 1e-3}, {1000, 2e-3}}).has_value());
}

NetworkModel two_levels() {
  NetworkModel model;
  model.ranks_per_node = 2;
  model.node = Link{1e-6, 1e-10};
  model.across = Link{10e-6, 1e-8};
  model.sum_s_per_byte = 2e-11;
  return model;
}

TEST(MissingMeasurement, IsNamed) {
  NetworkModel model = two_levels();
  EXPECT_EQ(std::string(missing_measurement(model, {4, 2})), "");
  model.node.reset();
  EXPECT_NE(std::string(missing_measurement(model, {4, 2})), "");
  EXPECT_EQ(std::string(missing_measurement(model, {4, 1})), "");
  model.across.reset();
  EXPECT_NE(std::string(missing_measurement(model, {4, 1})).find("--link-rate"), std::string::npos);
}

}  // namespace of_network_test
}  // namespace shoal::plan
