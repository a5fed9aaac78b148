// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/layernorm.hpp"

#include <limits>

#include "kernel_test.hpp"
#include "reference_elementwise.hpp"

namespace shoal::kernels::test {
namespace of_layernorm_test {

constexpr float epsilon = 1e-5F;

template <typename T>
struct Norm {
  std::size_t rows, C;
  std::vector<T> x, gain, bias, y;
  std::vector<float> mean, rstd;

  Norm(std::size_t rows_, std::size_t C_)
      : rows(rows_),
        C(C_),
        x(numbers<T>(rows * C, 1, -1.0F, 3.0F)),
        gain(numbers<T>(C, 2)),
        bias(numbers<T>(C, 3)),
        y(rows * C),
        mean(rows),
        rstd(rows) {}
  LayerNormInputs<T> inputs() const { return {.x = x.data(), .gain = gain.data(), .bias = bias.data()}; }
  LayerNormBackwardInputs<T> backward_inputs(const T* dy, const T* residual) const {
    return {.x = x.data(),
            .gain = gain.data(),
            .mean = mean.data(),
            .rstd = rstd.data(),
            .dy = dy,
            .residual_gradient = residual};
  }
  void forward() {
    layernorm_forward<T>({rows, C}, epsilon, inputs(), {.y = y.data(), .mean = mean.data(), .rstd = rstd.data()});
  }
  reference::LayerNorm exact() const {
    return reference::layernorm(rows, C, static_cast<double>(epsilon), doubles(x), doubles(gain), doubles(bias));
  }
};

template <typename T>
struct NormGradient {
  std::vector<T> dx;
  std::vector<float> dgain, dbias;
};
template <typename T>
NormGradient<T> backward(const Norm<T>& norm, const std::vector<T>& dy, const T* residual) {
  NormGradient<T> out{std::vector<T>(norm.rows * norm.C), std::vector<float>(norm.C, -7.0F),
                      std::vector<float>(norm.C, -7.0F)};
  std::vector<std::byte> workspace(layernorm_workspace_bytes({norm.rows, norm.C}));
  layernorm_backward<T>({norm.rows, norm.C}, norm.backward_inputs(dy.data(), residual),
                        {.dx = out.dx.data(), .dgain = out.dgain.data(), .dbias = out.dbias.data()}, workspace);
  return out;
}

template <typename T>
class LayerNorm : public testing::Test {};
TYPED_TEST_SUITE(LayerNorm, StorageTypes);

// The elements are up to 3, with a standard deviation near 1.2. x - mean has an error of a few roundings of 3, which is
// multiplied by rstd (near 0.9) and gain (up to 2). If there is one column, x is its mean: y is bias, and rstd is large.
TYPED_TEST(LayerNorm, ForwardIsTheReference) {
  for (const std::size_t C : odd_sizes) {
    Norm<TypeParam> norm(5, C);
    norm.forward();
    const auto want = norm.exact();
    expect_near(norm.mean, want.mean, 4, 3.0);
    if (C > 1) {
      expect_near(norm.rstd, want.rstd, 10, 1.5);
      expect_near(norm.y, want.y, 16, 6.0);
    } else {
      expect_near(norm.y, want.y, 2, 2.0);
    }
  }
}

TYPED_TEST(LayerNorm, FarFromZeroKeepsItsVariance) {
  Norm<TypeParam> norm(1, 1000);
  for (std::size_t c = 0; c < norm.C; ++c) norm.x[c] = TypeParam(1024.0F + static_cast<float>(c % 2) * 8.0F);
  norm.forward();
  EXPECT_NEAR(norm.rstd[0], 0.25, 1e-6);  // E[x^2] - E[x]^2 in float would be off in the second digit
}

TYPED_TEST(LayerNorm, RecomputeGivesForwardsBits) {
  for (const std::size_t C : odd_sizes) {
    Norm<TypeParam> norm(7, C);
    norm.forward();
    std::vector<TypeParam> again(norm.y.size());
    layernorm_recompute<TypeParam>({norm.rows, C}, norm.inputs(), {.mean = norm.mean.data(), .rstd = norm.rstd.data()},
                                   again.data());
    EXPECT_TRUE(same_bits(again, norm.y));
  }
}

TYPED_TEST(LayerNorm, BackwardIsTheReference) {
  for (const std::size_t C : odd_sizes) {
    if (C == 1) continue;  // the gradient is zero times 1 / sqrt(epsilon)
    Norm<TypeParam> norm(130, C);
    norm.forward();
    const auto dy = numbers<TypeParam>(norm.rows * C, 4);
    const auto residual = numbers<TypeParam>(norm.rows * C, 5);
    const auto got = backward(norm, dy, residual.data());
    auto want = reference::layernorm_backward(norm.rows, C, doubles(norm.x), doubles(norm.gain), norm.exact(), doubles(dy));
    for (std::size_t i = 0; i < want.dx.size(); ++i) want.dx[i] += static_cast<double>(residual[i]);
    expect_near(got.dx, want.dx, 24, 8.0);
    const auto rows = static_cast<double>(norm.rows);
    expect_near(got.dgain, want.dgain, 80, 4.0 * rows);
    expect_near(got.dbias, want.dbias, 68, 2.0 * rows);
  }
}

TYPED_TEST(LayerNorm, BackwardIsTheSlopeOfForward) {
  Norm<TypeParam> norm(2, 19);
  norm.forward();
  const auto dy = numbers<TypeParam>(norm.rows * norm.C, 6);
  const auto got = backward<TypeParam>(norm, dy, nullptr);
  const auto x = doubles(norm.x), gain = doubles(norm.gain), bias = doubles(norm.bias), weight = doubles(dy);
  const auto along = [&](const reference::Vector& x_, const reference::Vector& gain_, const reference::Vector& bias_) {
    const auto y = reference::layernorm(norm.rows, norm.C, static_cast<double>(epsilon), x_, gain_, bias_).y;
    double total = 0;
    for (std::size_t i = 0; i < y.size(); ++i) total += weight[i] * y[i];
    return total;
  };
  std::vector<double> dx(x.size()), dgain(norm.C), dbias(norm.C);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    dx[i] = reference::slope_of([&](const reference::Vector& v) { return along(v, gain, bias); }, x, i);
  }
  for (std::size_t i = 0; i < norm.C; ++i) {
    dgain[i] = reference::slope_of([&](const reference::Vector& v) { return along(x, v, bias); }, gain, i);
    dbias[i] = reference::slope_of([&](const reference::Vector& v) { return along(x, gain, v); }, bias, i);
  }
  expect_near(got.dx, dx, 40, 8.0);
  expect_near(got.dgain, dgain, 40, 8.0);
  expect_near(got.dbias, dbias, 40, 4.0);
}

TYPED_TEST(LayerNorm, BackwardMayWriteOverItsOperands) {
  Norm<TypeParam> norm(70, 33);
  norm.forward();
  const auto dy = numbers<TypeParam>(norm.rows * norm.C, 7);
  const auto residual = numbers<TypeParam>(norm.rows * norm.C, 8);
  const auto apart = backward(norm, dy, residual.data());
  std::vector<std::byte> workspace(layernorm_workspace_bytes({norm.rows, norm.C}));
  for (const bool over_residual : {false, true}) {
    std::vector<TypeParam> first = dy, second = residual;
    std::vector<float> dgain(norm.C), dbias(norm.C);
    std::vector<TypeParam>& dx = over_residual ? second : first;
    layernorm_backward<TypeParam>({norm.rows, norm.C}, norm.backward_inputs(first.data(), second.data()),
                                  {.dx = dx.data(), .dgain = dgain.data(), .dbias = dbias.data()}, workspace);
    EXPECT_TRUE(same_bits(dx, apart.dx));
    EXPECT_TRUE(same_bits(dgain, apart.dgain));
  }
}

TYPED_TEST(LayerNorm, RowsAreComputedAlike) {
  Norm<TypeParam> whole(9, 100);
  whole.forward();
  Norm<TypeParam> part(4, 100);
  part.x.assign(whole.x.begin() + 500, whole.x.end());
  part.forward();
  EXPECT_TRUE(same_bits(part.y, std::vector<TypeParam>(whole.y.begin() + 500, whole.y.end())));
}

TYPED_TEST(LayerNorm, NothingDependsOnThreads) {
  Norm<TypeParam> norm(300, 257);
  const auto dy = numbers<TypeParam>(norm.rows * norm.C, 9);
  expect_independent_of_threads<TypeParam>([&] {
    norm.forward();
    return norm.y;
  });
  expect_independent_of_threads<TypeParam>([&] { return backward<TypeParam>(norm, dy, nullptr).dx; });
  expect_independent_of_threads<float>([&] { return backward<TypeParam>(norm, dy, nullptr).dgain; });
  expect_independent_of_threads<float>([&] { return backward<TypeParam>(norm, dy, nullptr).dbias; });
}

TYPED_TEST(LayerNorm, WhatIsNotFiniteShowsInItsRowAlone) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Norm<TypeParam> norm(3, 20);
    norm.x[20 + 19] = TypeParam(bad);
    norm.forward();
    for (std::size_t c = 0; c < norm.C; ++c) {
      EXPECT_FALSE(std::isnan(norm.y[c]));
      EXPECT_TRUE(std::isnan(norm.y[20 + c]));
      EXPECT_FALSE(std::isnan(norm.y[40 + c]));
    }
  }
}

}  // namespace of_layernorm_test
}  // namespace shoal::kernels::test
