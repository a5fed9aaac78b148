// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/cross_entropy.hpp"

#include <limits>

#include "kernel_test.hpp"
#include "reference_elementwise.hpp"

namespace shoal::kernels::test {
namespace of_cross_entropy_test {

constexpr std::size_t rows = 5;
constexpr float scale = 0.37F;

std::vector<std::int32_t> targets(std::size_t V) {
  return {0, static_cast<std::int32_t>(V - 1), static_cast<std::int32_t>(V / 2), 0, static_cast<std::int32_t>(V / 3)};
}

template <typename T>
struct Result {
  std::vector<float> losses;
  std::vector<T> gradient;
};
template <typename T>
Result<T> run(std::size_t V, const std::vector<float>& logits) {
  Result<T> out{std::vector<float>(rows), std::vector<T>(rows * V)};
  cross_entropy<T>({rows, V}, {.logits = logits.data(), .targets = targets(V).data(), .stride = V}, scale,
                   {.losses = out.losses.data(), .dlogits = out.gradient.data()});
  return out;
}

template <typename T>
class CrossEntropy : public testing::Test {};
TYPED_TEST_SUITE(CrossEntropy, StorageTypes);

// The difference of a logit from the largest one is up to 16 and is rounded, so a probability has an error of 16 of its own
// roundings. Their sum adds V / 64 + 8 more. The loss adds numbers of up to 16.
TYPED_TEST(CrossEntropy, IsTheReference) {
  for (const std::size_t V : odd_sizes) {
    const auto logits = numbers(rows * V, 1, -8.0F, 8.0F);
    const auto got = run<TypeParam>(V, logits);
    const auto exact = doubles(logits);
    std::vector<double> losses(rows), gradient(rows * V);
    for (std::size_t r = 0; r < rows; ++r) {
      losses[r] = reference::cross_entropy(V, &exact[r * V], targets(V)[r]);
      for (std::size_t v = 0; v < V; ++v) {
        const double p = std::exp(-reference::cross_entropy(V, &exact[r * V], static_cast<std::int32_t>(v)));
        const double onehot = static_cast<std::int32_t>(v) == targets(V)[r] ? 1.0 : 0.0;
        gradient[r * V + v] = (p - onehot) * static_cast<double>(scale);
      }
    }
    const double ulps = 16.0 + 8.0 + static_cast<double>(V) / 64;
    expect_near(got.losses, losses, ulps, 2.0);
    expect_near(got.gradient, gradient, ulps, 0.37);
    std::vector<float> alone(rows);
    cross_entropy_forward({rows, V}, {.logits = logits.data(), .targets = targets(V).data(), .stride = V}, alone.data());
    EXPECT_TRUE(same_bits(alone, got.losses));
  }
}

TYPED_TEST(CrossEntropy, ElementsBehindTheSymbolsAreNotReadAndBecomeZero) {
  for (const std::size_t V : {1, 15, 57}) {
    const std::size_t stride = 64;
    const auto logits = numbers(rows * V, 9);
    const auto expected = run<TypeParam>(V, logits);
    std::vector<float> wide(rows * stride, std::nanf("")), losses(rows);
    std::vector<TypeParam> gradient(rows * stride, TypeParam(7.0F));
    for (std::size_t r = 0; r < rows; ++r) std::copy_n(&logits[r * V], V, &wide[r * stride]);
    cross_entropy<TypeParam>({rows, V}, {.logits = wide.data(), .targets = targets(V).data(), .stride = stride}, scale,
                             {.losses = losses.data(), .dlogits = gradient.data()});
    EXPECT_TRUE(same_bits(losses, expected.losses));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const std::size_t r = i / stride, v = i % stride;
      ASSERT_EQ(static_cast<float>(gradient[i]), v < V ? static_cast<float>(expected.gradient[r * V + v]) : 0.0F) << i;
    }
  }
}

TYPED_TEST(CrossEntropy, GradientIsTheSlope) {
  const std::size_t V = 19;
  const auto logits = numbers(rows * V, 2);
  const auto got = run<TypeParam>(V, logits);
  const auto total = [&](const reference::Vector& x) {
    double sum = 0;
    for (std::size_t r = 0; r < rows; ++r)
      sum += static_cast<double>(scale) * reference::cross_entropy(V, &x[r * V], targets(V)[r]);
    return sum;
  };
  std::vector<double> want(rows * V);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = reference::slope_of(total, doubles(logits), i);
  expect_near(got.gradient, want, 32, 0.37);
}

TEST(CrossEntropyInPlace, GivesTheSameBits) {
  for (const std::size_t V : odd_sizes) {
    const auto logits = numbers(rows * V, 3, -8.0F, 8.0F);
    const auto apart = run<float>(V, logits);
    std::vector<float> over = logits, losses(rows);
    cross_entropy<float>({rows, V}, {.logits = over.data(), .targets = targets(V).data(), .stride = V}, scale,
                         {.losses = losses.data(), .dlogits = over.data()});
    EXPECT_TRUE(same_bits(over, apart.gradient));
    EXPECT_TRUE(same_bits(losses, apart.losses));
  }
}

TYPED_TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  const std::size_t V = 33;
  std::vector<float> logits(rows * V, -3e4F);
  for (std::size_t r = 0; r < rows; ++r) logits[r * V] = 3e4F;
  const auto got = run<TypeParam>(V, logits);
  EXPECT_EQ(got.losses[0], 0.0F);
  EXPECT_EQ(got.losses[1], 6e4F);
  EXPECT_EQ(static_cast<float>(got.gradient[0]), 0.0F);
  EXPECT_EQ(static_cast<float>(got.gradient[1 * V + V - 1]), static_cast<float>(TypeParam(-scale)));
}

TYPED_TEST(CrossEntropy, MaskedLogitsCountNothing) {
  const std::size_t V = 20;
  std::vector<float> logits(rows * V, 0.0F);
  for (std::size_t r = 0; r < rows; ++r) logits[r * V + 3] = -std::numeric_limits<float>::infinity();
  const auto got = run<TypeParam>(V, logits);
  EXPECT_NEAR(got.losses[0], std::log(19.0), 1e-6);
  EXPECT_EQ(static_cast<float>(got.gradient[3]), 0.0F);
}

// Everywhere in the row: in a whole vector and in the tail.
TYPED_TEST(CrossEntropy, NaNShowsInTheLoss) {
  for (const std::size_t V : {5, 16, 70, 257}) {
    for (const std::size_t at : {std::size_t{1}, V / 2, V - 1}) {
      auto logits = numbers(rows * V, 4);
      logits[V + at] = std::nanf("");
      const auto got = run<TypeParam>(V, logits);
      EXPECT_FALSE(std::isnan(got.losses[0]));
      EXPECT_TRUE(std::isnan(got.losses[1])) << at << " of " << V;
      EXPECT_FALSE(std::isnan(got.losses[2]));
      EXPECT_TRUE(std::isnan(got.gradient[V]));
    }
  }
}

TYPED_TEST(CrossEntropy, NothingDependsOnThreads) {
  const auto logits = numbers(rows * 20000, 5);
  expect_independent_of_threads<TypeParam>([&] { return run<TypeParam>(20000, logits).gradient; });
  expect_independent_of_threads<float>([&] { return run<TypeParam>(20000, logits).losses; });
}

}  // namespace of_cross_entropy_test
}  // namespace shoal::kernels::test
