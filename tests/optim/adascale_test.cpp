// SPDX-License-Identifier: Apache-2.0
// Compares AdaScale and SGD, step by step, with FairScale 0.4.13's AdaScale around torch's SGD.
#include "shoal/optim/adascale.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/optim/optimizer.hpp"
#include "support/oracle.hpp"

namespace of_adascale_test {

using nlohmann::json;
using shoal::Error;
using shoal::Range;
using shoal::Span;
using shoal::optim::AdaScale;
using shoal::optim::AdaScaleOptions;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t elements = 17;
constexpr Range tensors[] = {{0, 5}, {5, 17}};

/// A case of the oracle: its options and gradients, and the expected values by step.
struct Case {
  AdaScaleOptions options;
  std::size_t micro_batches = 0, groups = 0;
  double lr = 0, momentum = 0;
  std::vector<float> gradients;  // [step, micro-batch, element]
  std::vector<double> gain, group_gain, group_lr, square, variance, effective_steps, params;

  void configure(const json& config) {
    micro_batches = config.at("ranks").get<std::size_t>() * config.at("accum").get<std::size_t>();
    groups = config.at("groups");
    lr = config.at("lr");
    momentum = config.at("momentum");
    options.debias = config.at("debias");
    if (!config.at("scale").is_null()) options.scale = config.at("scale");
    if (!config.at("smoothing").is_null()) options.smoothing = config.at("smoothing");
  }
};

AdaScale::Squares squares(const std::vector<std::vector<float>>& micro, Range range) {
  AdaScale::Squares result{0, 0};
  for (std::size_t i = range.begin; i < range.end; ++i) {
    double mean = 0;
    for (const auto& gradient : micro) {
      result.micro += static_cast<double>(gradient[i]) * gradient[i];
      mean += static_cast<double>(gradient[i]) / static_cast<double>(micro.size());
    }
    result.mean += mean * mean;
  }
  return result;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  return most;
}

/// Runs the case and compares every step. The tolerances are those of the oracle's README. After each step the state is
/// restored into a new AdaScale, which continues.
void walk(const Case& expected) {
  shoal::optim::OptimizerOptions sgd;
  sgd.kind = shoal::optim::OptimizerKind::sgd;
  sgd.momentum = expected.momentum;
  sgd.weight_decay = 0;
  const auto optimizer = shoal::optim::make(sgd);
  AdaScale adascale(expected.options, expected.micro_batches, expected.groups);
  EXPECT_EQ(adascale.gain(), 1) << "before anything was observed";
  std::vector<float> params(elements, 0.0F), momentum(elements, 0.0F);
  const std::size_t steps = expected.gain.size(), groups = expected.groups;
  for (std::size_t t = 0; t < steps; ++t) {
    SCOPED_TRACE("step " + std::to_string(t));
    std::vector<std::vector<float>> micro;
    std::vector<float> mean(elements, 0.0F);
    for (std::size_t m = 0; m < expected.micro_batches; ++m) {
      const auto begin =
          expected.gradients.begin() + static_cast<std::ptrdiff_t>((t * expected.micro_batches + m) * elements);
      micro.emplace_back(begin, begin + elements);
      for (std::size_t i = 0; i < elements; ++i) mean[i] += micro[m][i] / static_cast<float>(expected.micro_batches);
    }
    const std::vector<Range> ranges =
        groups == 1 ? std::vector<Range>{{0, elements}} : std::vector<Range>(std::begin(tensors), std::end(tensors));
    std::vector<AdaScale::Squares> sums;
    for (const Range& range : ranges) sums.push_back(squares(micro, range));
    adascale.observe(sums);
    adascale.advance();

    const auto near = [](double value, double wanted, const char* what) {
      EXPECT_NEAR(value, wanted, 1e-5 * std::abs(wanted) + 1e-30) << what;
    };
    near(adascale.gain(), expected.gain.at(t), "gain");
    near(adascale.effective_steps(), expected.effective_steps.at(t), "effective steps");
    for (std::size_t g = 0; g < groups; ++g) {
      near(adascale.gain(g), expected.group_gain.at(t * groups + g), "a group's gain");
      near(adascale.state().square[g], expected.square.at(t * groups + g), "the squared norm of the gradient");
      near(adascale.state().variance[g], expected.variance.at(t * groups + g), "variance");
      if (!expected.group_lr.empty()) near(expected.lr * adascale.gain(g), expected.group_lr.at(t * groups + g), "its rate");
      shoal::optim::Slice slice;
      slice.gradient = Span<const float>(mean).subspan(ranges[g].begin, ranges[g].size());
      slice.master = Span<float>(params).subspan(ranges[g].begin, ranges[g].size());
      slice.moments = {Span<float>(momentum).subspan(ranges[g].begin, ranges[g].size())};
      optimizer->step(slice, {static_cast<std::int64_t>(t + 1), expected.lr * adascale.gain(g), 0, 0, 1.0F});
    }
    for (std::size_t i = 0; i < elements; ++i) {
      EXPECT_NEAR(params[i], expected.params.at(t * elements + i), 1e-5 * largest(expected.params)) << "parameter " << i;
    }
    AdaScale resumed(expected.options, expected.micro_batches, groups);
    resumed.restore(adascale.state());
    ASSERT_EQ(resumed.state(), adascale.state());
    adascale = resumed;
  }
}

template <typename T>
std::vector<T> flat(const json& rows) {
  std::vector<T> values;
  for (const json& row : rows) {
    if (row.is_array()) {
      for (const json& value : row) values.push_back(value);
    } else {
      values.push_back(row);
    }
  }
  return values;
}

json parsed(const std::filesystem::path& path) {
  std::ifstream file(path);
  return json::parse(file);
}

TEST(AdaScale, IsFairScalesOverAFewSteps) {
  const json copied = parsed(shoal::test::source_tree() / "tests/optim/data/adascale.json");
  for (const auto& [name, entry] : copied.at("cases").items()) {
    SCOPED_TRACE(name);
    Case expected;
    expected.configure(entry.at("config"));
    expected.gradients = flat<float>(entry.at("gradients"));
    expected.gain = flat<double>(entry.at("gain"));
    expected.group_gain = flat<double>(entry.at("group_gain"));
    expected.square = flat<double>(entry.at("grad_sqr_avg"));
    expected.variance = flat<double>(entry.at("grad_var_avg"));
    expected.effective_steps = flat<double>(entry.at("effective_steps"));
    expected.params = flat<double>(entry.at("params"));
    walk(expected);
  }
}

TEST(AdaScale, IsFairScalesInEveryCase) {
  const std::filesystem::path path = shoal::test::shared_data("oracles/adascale/adascale.h5");
  SHOAL_NEED(path);
  const shoal::test::Hdf5 oracle(path);
  const json cases = parsed(shoal::test::shared_data("oracles/adascale/adascale.json")).at("cases");
  ASSERT_GT(cases.size(), 10U);
  for (const auto& [name, entry] : cases.items()) {
    SCOPED_TRACE(name);
    const auto numbers = [&, at = name + "/"](const char* dataset) { return oracle.dataset<double>(at + dataset); };
    Case expected;
    expected.configure(entry.at("config"));
    expected.gradients = oracle.dataset<float>(name + "/gradients");
    expected.gain = numbers("gain");
    expected.group_gain = numbers("group_gain");
    expected.group_lr = numbers("group_lr");
    expected.square = numbers("grad_sqr_avg");
    expected.variance = numbers("grad_var_avg");
    expected.effective_steps = numbers("effective_steps");
    expected.params = numbers("params");
    const AdaScale made(expected.options, expected.micro_batches);
    EXPECT_EQ(made.scale(), entry.at("scale").get<double>());
    EXPECT_NEAR(made.smoothing(), entry.at("smoothing").get<double>(), 1e-15);
    walk(expected);
  }
}

TEST(AdaScale, LiesBetweenOneAndItsScale) {
  AdaScale equal({}, 4), noise({}, 4);
  equal.observe(std::vector<AdaScale::Squares>{{4.0, 1.0}});  // four times the same gradient
  EXPECT_NEAR(equal.gain(), 1, 1e-6);
  noise.observe(std::vector<AdaScale::Squares>{{4.0, 0.25}});  // four that are orthogonal
  EXPECT_NEAR(noise.gain(), 4, 1e-12);
}

/// The average is a plain mean until 1 / t is at most 1 - smoothing, and then an exponential average. With a smoothing of
/// 2/3 each value from the third on has a weight of 1/3.
TEST(AdaScale, GoesFromAMeanToAnExponentialAverage) {
  AdaScaleOptions options;
  options.debias = false;
  options.smoothing = 2.0 / 3;
  AdaScale adascale(options, 2);
  const double expected[] = {1, 1.5, 2, 8.0 / 3};
  for (int t = 0; t < 4; ++t) {
    const double square = t + 1;
    adascale.observe(std::vector<AdaScale::Squares>{{2 * square, square}});
    EXPECT_NEAR(adascale.state().square[0], expected[t], 1e-12) << t;
  }
}

TEST(AdaScale, RefusesWhatCannotBe) {
  EXPECT_THAT([] { AdaScale one({}, 1); }, ThrowsMessage<Error>(HasSubstr("needs 2 micro-batches a step or more")));
  AdaScaleOptions options;
  options.scale = 0.5;
  EXPECT_THAT([&] { AdaScale small(options, 2); }, ThrowsMessage<Error>(HasSubstr("optimizer.adascale_scale = 0.5")));
  options = {};
  options.smoothing = 1;
  EXPECT_THAT([&] { AdaScale frozen(options, 2); }, ThrowsMessage<Error>(HasSubstr("optimizer.adascale_smoothing = 1")));
  AdaScale adascale({}, 2);
  EXPECT_THROW(adascale.observe({}), Error);
  EXPECT_THROW(adascale.observe(std::vector<AdaScale::Squares>{{std::nan(""), 1}}), Error);
  EXPECT_THROW(adascale.restore({}), Error);
  EXPECT_THROW(adascale.restore({{1.0}, {std::nan("")}, 1, 1}), Error);
}

}  // namespace of_adascale_test
