// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/optimizer.hpp"

#include "kernel_test.hpp"

namespace shoal::kernels::test {
namespace of_optimizer_test {

constexpr int steps = 10;
constexpr double lr = 0.01, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, decay = 0.1, gradient_scale = 0.5, momentum = 0.9;

struct State {
  std::vector<float> master, first, second;
  std::vector<bf16> parameters;
  explicit State(std::size_t n) : master(numbers(n, 1)), first(n), second(n), parameters(n) {}
  AdamWState adamw_from(std::size_t begin) { return {&master[begin], &first[begin], &second[begin]}; }
  RoundedParameters rounded_from(std::size_t begin) { return {DType::bf16, &parameters[begin]}; }
};

std::vector<float> gradient(std::size_t n, int t) { return numbers(n, 100 + static_cast<std::uint64_t>(t)); }

AdamWStep adamw_step(int t) {
  return {lr, beta1, beta2, epsilon, decay, 1.0 - std::pow(beta1, t), 1.0 - std::pow(beta2, t), gradient_scale};
}
SgdStep sgd_step(bool nesterov, bool first) {
  return {static_cast<float>(lr),
          static_cast<float>(momentum),
          static_cast<float>(decay),
          nesterov,
          first,
          static_cast<float>(gradient_scale)};
}

/// Runs steps 1 .. `steps` on the elements [begin, end) only.
void run_adamw(State& s, std::size_t begin, std::size_t end) {
  for (int t = 1; t <= steps; ++t) {
    const auto g = gradient(s.master.size(), t);
    adamw(end - begin, adamw_step(t), &g[begin], s.adamw_from(begin), s.rounded_from(begin));
  }
}
void run_sgd(State& s, bool nesterov, bool buffered, std::size_t begin, std::size_t end) {
  for (int t = 1; t <= steps; ++t) {
    const auto g = gradient(s.master.size(), t);
    sgd(end - begin, sgd_step(nesterov, t == 1), &g[begin],
        {.master = &s.master[begin], .buffer = buffered ? &s.first[begin] : nullptr}, s.rounded_from(begin));
  }
}

/// Ten steps have an error of ten roundings of a parameter below 2.5, and the moments about as much. If 1 - 0.999 were
/// computed in float, each update would have a relative error of 6e-6.
void expect_close(const std::vector<float>& got, const std::vector<double>& want) { expect_near(got, want, 3 * steps, 2.5); }

TEST(AdamW, IsTheReferenceOverTenSteps) {
  for (const std::size_t n : odd_sizes) {
    State s(n);
    std::vector<double> p = doubles(s.master), m(n), v(n);
    run_adamw(s, 0, n);
    for (int t = 1; t <= steps; ++t) {
      const auto g = gradient(n, t);
      for (std::size_t i = 0; i < n; ++i) {
        const double scaled = static_cast<double>(g[i]) * gradient_scale;
        p[i] *= 1 - lr * decay;
        m[i] = beta1 * m[i] + (1 - beta1) * scaled;
        v[i] = beta2 * v[i] + (1 - beta2) * scaled * scaled;
        const double corrected = std::sqrt(v[i]) / std::sqrt(1 - std::pow(beta2, t));
        p[i] -= lr / (1 - std::pow(beta1, t)) * m[i] / (corrected + epsilon);
      }
    }
    expect_close(s.master, p);
    expect_near(s.first, m, 20, 1.0);
    expect_near(s.second, v, 20, 0.01);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(s.parameters[i].bits, bf16(s.master[i]).bits);
  }
}

TEST(AdamW, FirstStepMovesByTheLearningRate) {
  State s(3);
  s.master = {0.0F, 0.0F, 0.0F};
  const std::vector<float> g = {3.0F, -1e-3F, 0.0F};
  adamw(3, adamw_step(1), g.data(), s.adamw_from(0), {});
  EXPECT_NEAR(s.master[0], -lr, 1e-8);
  EXPECT_NEAR(s.master[1], lr, 1e-6);
  EXPECT_EQ(s.master[2], 0.0F);
}

TEST(Sgd, IsTheReferenceOverTenSteps) {
  for (const std::size_t n : odd_sizes) {
    for (const auto& [nesterov, buffered] : {std::pair{false, false}, {false, true}, {true, true}}) {
      State s(n);
      std::vector<double> p = doubles(s.master), buffer(n);
      run_sgd(s, nesterov, buffered, 0, n);
      for (int t = 1; t <= steps; ++t) {
        const auto g = gradient(n, t);
        for (std::size_t i = 0; i < n; ++i) {
          const double scaled = static_cast<double>(g[i]) * gradient_scale + decay * p[i];
          double direction = scaled;
          if (buffered) {
            buffer[i] = t == 1 ? scaled : momentum * buffer[i] + scaled;
            direction = nesterov ? scaled + momentum * buffer[i] : buffer[i];
          }
          p[i] -= lr * direction;
        }
      }
      expect_close(s.master, p);
      if (buffered) expect_near(s.first, buffer, 40, 8.0);
      for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(s.parameters[i].bits, bf16(s.master[i]).bits);
    }
  }
}

TEST(Sgd, FirstStepTakesNothingFromTheBuffer) {
  State s(20);
  s.first.assign(20, std::nanf(""));
  run_sgd(s, true, true, 0, 20);
  for (const float p : s.master) EXPECT_TRUE(std::isfinite(p));
}

TEST(Optimizers, RoundToF16) {
  const std::size_t n = 1000;
  State s(n);
  const auto g = gradient(n, 1);
  std::vector<f16> rounded(n);
  const auto expect_rounded = [&] {
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(rounded[i].bits, f16(s.master[i]).bits);
  };
  adamw(n, adamw_step(1), g.data(), s.adamw_from(0), {.type = DType::f16, .data = rounded.data()});
  expect_rounded();
  sgd(n, sgd_step(true, true), g.data(), {.master = s.master.data(), .buffer = s.first.data()},
      {.type = DType::f16, .data = rounded.data()});
  expect_rounded();
}

TEST(Optimizers, PartsAreTheWhole) {
  const std::size_t n = 1000;
  State adam_whole(n), sgd_whole(n);
  run_adamw(adam_whole, 0, n);
  run_sgd(sgd_whole, true, true, 0, n);
  for (const std::size_t cut : {1, 15, 256, 777}) {
    State adam(n), plain(n);
    for (const Range part : {Range{0, cut}, Range{cut, n}}) {
      run_adamw(adam, part.begin, part.end);
      run_sgd(plain, true, true, part.begin, part.end);
    }
    EXPECT_TRUE(same_bits(adam.master, adam_whole.master)) << "cut at " << cut;
    EXPECT_TRUE(same_bits(adam.second, adam_whole.second)) << "cut at " << cut;
    EXPECT_TRUE(same_bits(adam.parameters, adam_whole.parameters)) << "cut at " << cut;
    EXPECT_TRUE(same_bits(plain.master, sgd_whole.master)) << "cut at " << cut;
  }
}

TEST(Optimizers, WhatIsNotFiniteShows) {
  State adam(20), plain(20);
  std::vector<float> g(20, 1.0F);
  g[18] = std::nanf("");
  adamw(20, adamw_step(1), g.data(), adam.adamw_from(0), adam.rounded_from(0));
  sgd(20, sgd_step(false, true), g.data(), {.master = plain.master.data(), .buffer = nullptr}, plain.rounded_from(0));
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(std::isnan(adam.master[i]), i == 18);
    EXPECT_EQ(std::isnan(plain.master[i]), i == 18);
    EXPECT_EQ(std::isnan(plain.parameters[i]), i == 18);
  }
}

TEST(Optimizers, NothingDependsOnThreads) {
  expect_independent_of_threads<float>([] {
    State s(40000);
    run_adamw(s, 0, 40000);
    return s.master;
  });
}

}  // namespace of_optimizer_test
}  // namespace shoal::kernels::test
