// SPDX-License-Identifier: Apache-2.0
// Compares the optimizers, on one slice over several steps, with torch's formulas in double.
#include "shoal/optim/optimizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "shoal/base/error.hpp"

namespace of_optimizer_test {

using shoal::DType;
using shoal::Span;
using shoal::optim::Optimizer;
using shoal::optim::OptimizerKind;
using shoal::optim::OptimizerOptions;
using shoal::optim::Slice;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t elements = 37;  // not a multiple of a vector

/// One slice with its states, and a second copy of its numbers in double, to which torch's formulas are applied.
struct Problem {
  std::vector<float> gradient = std::vector<float>(elements), master = gradient;
  std::vector<std::vector<float>> moments;
  std::vector<std::byte> parameters;
  DType dtype = DType::f32;
  bool decay = true;
  std::vector<double> exact;
  std::vector<std::vector<double>> exact_moments;

  explicit Problem(const Optimizer& optimizer) {
    for (std::size_t i = 0; i < elements; ++i) master[i] = std::sin(1.0F + static_cast<float>(i));
    moments.assign(optimizer.moment_names().size(), std::vector<float>(elements, 0.0F));
    // SGD must not read its momentum buffer at the first step, so that holds other numbers. AdamW's moments begin at zero.
    const float before = moments.size() == 1 ? 3.0F : 0.0F;
    for (auto& moment : moments) std::fill(moment.begin(), moment.end(), before);
    exact.assign(master.begin(), master.end());
    exact_moments.assign(moments.size(), std::vector<double>(elements, 0.0));
  }

  void set_gradient(std::int64_t t) {
    for (std::size_t i = 0; i < elements; ++i) gradient[i] = std::cos(static_cast<float>(t) + 0.3F * static_cast<float>(i));
  }

  Slice slice() {
    Slice result;
    result.gradient = gradient;
    result.master = master;
    result.parameters = parameters;
    result.dtype = dtype;
    for (auto& moment : moments) result.moments.emplace_back(moment);
    result.decay = decay;
    return result;
  }

  void expect_equal() const {
    for (std::size_t i = 0; i < elements; ++i) EXPECT_NEAR(master[i], exact[i], 2e-6) << "element " << i;
  }
};

void adamw_in_double(Problem& p, const OptimizerOptions& o, const Optimizer::Step& step) {
  const auto t = static_cast<double>(step.number);
  for (std::size_t i = 0; i < elements; ++i) {
    const double g = static_cast<double>(p.gradient[i]) * static_cast<double>(step.gradient_scale);
    double& m = p.exact_moments[0][i];
    double& v = p.exact_moments[1][i];
    p.exact[i] *= 1 - step.learning_rate * (p.decay ? o.weight_decay : 0.0);
    m = step.beta1 * m + (1 - step.beta1) * g;
    v = step.beta2 * v + (1 - step.beta2) * g * g;
    const double root = std::sqrt(v) / std::sqrt(1 - std::pow(step.beta2, t));
    p.exact[i] -= step.learning_rate / (1 - std::pow(step.beta1, t)) * m / (root + o.epsilon);
  }
}

void sgd_in_double(Problem& p, const OptimizerOptions& o, const Optimizer::Step& step) {
  for (std::size_t i = 0; i < elements; ++i) {
    const double scaled = static_cast<double>(p.gradient[i]) * static_cast<double>(step.gradient_scale);
    const double g = scaled + (p.decay ? o.weight_decay : 0.0) * p.exact[i];
    double direction = g;
    if (o.momentum != 0) {
      double& buffer = p.exact_moments[0][i];
      buffer = step.number == 1 ? g : o.momentum * buffer + g;
      direction = o.nesterov ? g + o.momentum * buffer : buffer;
    }
    p.exact[i] -= step.learning_rate * direction;
  }
}

using InDouble = void (*)(Problem&, const OptimizerOptions&, const Optimizer::Step&);

void compare(const OptimizerOptions& options, InDouble in_double, bool decay) {
  const auto optimizer = shoal::optim::make(options);
  Problem problem(*optimizer);
  problem.decay = decay;
  for (std::int64_t t = 1; t <= 8; ++t) {
    problem.set_gradient(t);
    // Rate, betas and scale change from step to step, as under OneCycle and clipping.
    const Optimizer::Step step{t, 0.01 * static_cast<double>(t), 0.9 - 0.01 * static_cast<double>(t), 0.99,
                               t % 2 == 0 ? 0.5F : 1.0F};
    optimizer->step(problem.slice(), step);
    in_double(problem, options, step);
    problem.expect_equal();
  }
}

TEST(AdamW, IsTorchsRule) {
  OptimizerOptions options;
  options.weight_decay = 0.3;
  compare(options, adamw_in_double, true);
  compare(options, adamw_in_double, false);
}

TEST(Sgd, IsTorchsRule) {
  OptimizerOptions options;
  options.kind = OptimizerKind::sgd;
  for (const double momentum : {0.0, 0.9}) {
    for (const bool nesterov : {false, true}) {
      if (nesterov && momentum == 0) continue;
      options.momentum = momentum;
      options.nesterov = nesterov;
      compare(options, sgd_in_double, true);
      compare(options, sgd_in_double, false);
    }
  }
}

TEST(Optimizer, RoundsItsMastersToTheParameters) {
  for (const auto& kind : shoal::optim::optimizer_kinds) {
    OptimizerOptions options;
    options.kind = kind.value;
    const auto optimizer = shoal::optim::make(options);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      Problem problem(*optimizer);
      problem.dtype = dtype;
      problem.parameters.resize(elements * 2);
      problem.set_gradient(1);
      optimizer->step(problem.slice(), {1, 0.01, 0.9, 0.95, 1.0F});
      for (std::size_t i = 0; i < elements; ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, &problem.parameters[2 * i], 2);
        const float master = problem.master[i];
        EXPECT_EQ(bits, dtype == DType::f16 ? shoal::f16(master).bits : shoal::bf16(master).bits) << kind.name;
      }
      problem.parameters.pop_back();
      EXPECT_THROW(optimizer->step(problem.slice(), {1, 0.01, 0.9, 0.95, 1.0F}), shoal::Error);
    }
  }
}

TEST(Optimizer, MomentNames) {
  OptimizerOptions options;
  EXPECT_THAT(shoal::optim::make(options)->moment_names(), testing::ElementsAre("first", "second"));
  options.kind = OptimizerKind::sgd;
  EXPECT_THAT(shoal::optim::make(options)->moment_names(), testing::ElementsAre("first"));
  options.momentum = 0;
  EXPECT_THAT(shoal::optim::make(options)->moment_names(), testing::IsEmpty());
}

TEST(Optimizer, RefusesWhatCannotBe) {
  OptimizerOptions options;
  options.kind = OptimizerKind::sgd;
  options.momentum = 0;
  options.nesterov = true;
  EXPECT_THAT([&] { shoal::optim::make(options); }, ThrowsMessage<shoal::Error>(HasSubstr("optimizer.momentum > 0")));
  const auto optimizer = shoal::optim::make({});
  Problem problem(*optimizer);
  problem.gradient.pop_back();
  EXPECT_THAT(
      [&] {
        optimizer->step(problem.slice(), {1, 0.01, 0.9, 0.95, 1.0F});
      },
      ThrowsMessage<shoal::Error>(HasSubstr("36 gradients for 37 master parameters")));
}

}  // namespace of_optimizer_test
