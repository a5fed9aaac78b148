// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/pointwise.hpp"
#include "shoal/kernels/bytes.hpp"

#include <limits>
#include <numeric>

#include "kernel_test.hpp"
#include "reference_elementwise.hpp"

namespace shoal::kernels::test {
namespace of_pointwise_test {

template <typename T>
struct GeluBackward {
  std::vector<T> g, du;
  std::vector<float> dbias;
};
template <typename T>
GeluBackward<T> run_gelu_backward(std::size_t rows, std::size_t C, const std::vector<T>& u, const std::vector<T>& dg) {
  GeluBackward<T> out{std::vector<T>(rows * C), std::vector<T>(rows * C), std::vector<float>(C)};
  std::vector<std::byte> workspace(column_sum_workspace_bytes({rows, C}));
  gelu_backward<T>({rows, C}, {.u = u.data(), .dg = dg.data()},
                   {.g = out.g.data(), .du = out.du.data(), .dbias = out.dbias.data()}, workspace);
  return out;
}

template <typename T>
class Pointwise : public testing::Test {};
TYPED_TEST_SUITE(Pointwise, StorageTypes);

/// The relative error of the gate for bf16 in units of float's roundoff: 2^-14 from the reciprocal, 2^-18 from the
/// exponential.
template <typename T>
constexpr double rough_gate = std::is_same_v<T, bf16> ? 0x1p24 * (0x1p-14 + 0x1p-18) : 0.0;

// Roundings: about five in the argument of the exponential, which is at most 14 if gelu is above 1e-6; the others are of
// numbers below one.
TYPED_TEST(Pointwise, GeluIsTheReference) {
  for (const std::size_t n : odd_sizes) {
    const auto u = numbers<TypeParam>(n, 1, -6.0F, 6.0F);
    std::vector<TypeParam> g(n);
    gelu_forward(n, u.data(), g.data());
    std::vector<double> want = doubles(u);
    for (double& v : want) v = reference::gelu(v);
    expect_near(g, want, 4, 1.0, rough_gate<TypeParam>);
  }
}

TYPED_TEST(Pointwise, GeluBackwardIsTheReference) {
  for (const std::size_t C : odd_sizes) {
    const std::size_t rows = 130;  // three groups of rows, the last short
    const auto u = numbers<TypeParam>(rows * C, 2, -5.0F, 5.0F);
    const auto dg = numbers<TypeParam>(rows * C, 3);
    const auto got = run_gelu_backward(rows, C, u, dg);

    std::vector<TypeParam> forward(rows * C);
    gelu_forward(rows * C, u.data(), forward.data());
    EXPECT_TRUE(same_bits(got.g, forward));

    std::vector<double> du = doubles(u);
    for (std::size_t i = 0; i < du.size(); ++i) du[i] = static_cast<double>(dg[i]) * reference::gelu_slope(du[i]);
    // The slope is the gate, plus a term of at most 0.63 that contains the gate twice.
    const double ulps = 12 + 2.26 * rough_gate<TypeParam>;
    expect_near(got.du, du, ulps, 2.0);
    expect_near(got.dbias, reference::column_sum(rows, C, du), ulps + 64, 2.0 * rows);
  }
}

TYPED_TEST(Pointwise, GeluBackwardIsTheSlope) {
  const std::size_t n = 257;
  const auto u = numbers<TypeParam>(n, 4, -5.0F, 5.0F);
  const auto got = run_gelu_backward(1, n, u, std::vector<TypeParam>(n, TypeParam(1.0F)));
  std::vector<double> want(n);
  for (std::size_t i = 0; i < n; ++i) {
    want[i] = reference::slope_of([](const reference::Vector& x) { return reference::gelu(x[0]); },
                                  {static_cast<double>(u[i])}, 0);
  }
  expect_near(got.du, want, 16 + 2.26 * rough_gate<TypeParam>, 1.2);
}

TYPED_TEST(Pointwise, GeluFarOut) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float far = std::is_same_v<TypeParam, f16> ? 65504.0F : 1e15F;
  const std::vector<TypeParam> u = {TypeParam(std::nanf("")), TypeParam(infinity), TypeParam(1e4F),  TypeParam(-1e4F),
                                    TypeParam(-far),          TypeParam(far),      TypeParam(-20.F), TypeParam(0.0F)};
  const auto got = run_gelu_backward(1, u.size(), u, std::vector<TypeParam>(u.size(), TypeParam(1.0F)));
  EXPECT_TRUE(std::isnan(got.g[0]));
  EXPECT_TRUE(std::isnan(got.du[0]));
  EXPECT_EQ(static_cast<float>(got.g[1]), infinity);
  for (const std::size_t large : {2, 5}) {
    EXPECT_EQ(static_cast<float>(got.g[large]), static_cast<float>(u[large]));
    EXPECT_EQ(static_cast<float>(got.du[large]), 1.0F);
  }
  for (const std::size_t small : {3, 4, 6}) {
    EXPECT_EQ(static_cast<float>(got.g[small]), 0.0F);
    EXPECT_EQ(static_cast<float>(got.du[small]), 0.0F);
  }
  EXPECT_EQ(static_cast<float>(got.du[7]), 0.5F);
}

TYPED_TEST(Pointwise, GeluBackwardMayWriteOverItsOperands) {
  const std::size_t rows = 70, C = 33;
  const auto u = numbers<TypeParam>(rows * C, 5);
  const auto dg = numbers<TypeParam>(rows * C, 6);
  const auto apart = run_gelu_backward(rows, C, u, dg);
  std::vector<std::byte> workspace(column_sum_workspace_bytes({rows, C}));
  for (const bool over_u : {false, true}) {
    std::vector<TypeParam> first = u, second = dg, g(rows * C);
    std::vector<float> dbias(C);
    std::vector<TypeParam>& du = over_u ? first : second;
    gelu_backward<TypeParam>({rows, C}, {.u = first.data(), .dg = second.data()},
                             {.g = g.data(), .du = du.data(), .dbias = dbias.data()}, workspace);
    EXPECT_TRUE(same_bits(du, apart.du));
    EXPECT_TRUE(same_bits(g, apart.g));
    EXPECT_TRUE(same_bits(dbias, apart.dbias));
  }
}

TYPED_TEST(Pointwise, GeluOfPartsIsGeluOfTheWhole) {
  const std::size_t n = 1000;
  const auto u = numbers<TypeParam>(n, 7, -5.0F, 5.0F);
  std::vector<TypeParam> whole(n), parts(n);
  gelu_forward(n, u.data(), whole.data());
  for (const std::size_t cut : {1, 7, 16, 333}) {
    gelu_forward(cut, u.data(), parts.data());
    gelu_forward(n - cut, u.data() + cut, parts.data() + cut);
    EXPECT_TRUE(same_bits(parts, whole)) << "cut at " << cut;
  }
}

TYPED_TEST(Pointwise, ColumnSumIsTheReference) {
  for (const std::size_t rows : {1, 63, 64, 65, 200}) {
    for (const std::size_t C : odd_sizes) {
      const auto x = numbers<TypeParam>(rows * C, 8);
      std::vector<float> sums(C, -7.0F);
      std::vector<std::byte> workspace(column_sum_workspace_bytes({rows, C}));
      column_sum<TypeParam>({rows, C}, x.data(), sums.data(), workspace);
      expect_near(sums, reference::column_sum(rows, C, doubles(x)), 64.0 + 4.0, 2.0 * static_cast<double>(rows));
    }
  }
}

TYPED_TEST(Pointwise, NothingDependsOnThreads) {
  const std::size_t rows = 300, C = 129;
  const auto u = numbers<TypeParam>(rows * C, 9);
  const auto dg = numbers<TypeParam>(rows * C, 10);
  expect_independent_of_threads<TypeParam>([&] { return run_gelu_backward(rows, C, u, dg).du; });
  expect_independent_of_threads<float>([&] { return run_gelu_backward(rows, C, u, dg).dbias; });
}

TYPED_TEST(Pointwise, Relu) {
  for (const std::size_t n : odd_sizes) {
    const auto x = numbers<TypeParam>(n, 11);
    const auto dy = numbers<TypeParam>(n, 12);
    std::vector<TypeParam> y = x, dx(n);
    relu_forward(n, y.data());
    relu_backward(n, y.data(), dy.data(), dx.data());
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(static_cast<float>(y[i]), std::max(static_cast<float>(x[i]), 0.0F));
      EXPECT_EQ(static_cast<float>(dx[i]), static_cast<float>(x[i]) > 0.0F ? static_cast<float>(dy[i]) : 0.0F);
    }
  }
  std::vector<TypeParam> bad = {TypeParam(std::nanf(""))};
  relu_forward(1, bad.data());
  EXPECT_TRUE(std::isnan(bad[0]));
}

TEST(Elementwise, AddInPartsIsAddOfTheWhole) {
  for (const std::size_t n : odd_sizes) {
    const auto from = numbers(n, 13);
    const auto into = numbers(n, 14);
    std::vector<float> whole = into, parts = into;
    add(n, from.data(), whole.data());
    add(n / 3, from.data(), parts.data());
    add(n - n / 3, from.data() + n / 3, parts.data() + n / 3);
    EXPECT_TRUE(same_bits(whole, parts));
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(whole[i], into[i] + from[i]);
  }
}

TEST(Elementwise, ConvertIsRounding) {
  for (const std::size_t n : odd_sizes) {
    const auto x = numbers(n, 15);
    std::vector<bf16> rounded(n);
    std::vector<float> back(n);
    convert(n, x.data(), rounded.data());
    convert(n, rounded.data(), back.data());
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(rounded[i].bits, bf16(x[i]).bits);
      EXPECT_EQ(back[i], static_cast<float>(bf16(x[i])));
    }
  }
}

TEST(Elementwise, FillAndCopyTouchWhatTheyAreGiven) {
  const std::size_t n = (std::size_t{1} << 19U) + 3;  // two work items of 1 MiB, and a little more
  std::vector<float> x(n + 1, 9.0F), y(n + 1, 8.0F);
  std::iota(x.begin(), x.end() - 1, 0.0F);
  copy_bytes(n * sizeof(float), x.data(), y.data());
  EXPECT_TRUE(std::equal(x.begin(), x.end() - 1, y.begin()));
  EXPECT_EQ(y[n], 8.0F);
  fill(n, 2.5F, x.data());
  EXPECT_EQ(std::count(x.begin(), x.end(), 2.5F), static_cast<std::ptrdiff_t>(n));
  EXPECT_EQ(x[n], 9.0F);
}

TEST(Elementwise, NothingToDo) {
  EXPECT_NO_THROW(gelu_forward<float>(0, nullptr, nullptr));
  EXPECT_NO_THROW(add<float>(0, nullptr, nullptr));
  EXPECT_NO_THROW(copy_bytes(0, nullptr, nullptr));
}

/// More groups of rows than a grid of CUDA has blocks in its second dimension.
TEST(ColumnSum, TakesMillionsOfRows) {
  constexpr std::size_t rows = std::size_t{64} * 65536 + 1;
  const std::vector<float> x(rows, 1.0F);
  std::vector<float> sums(1);
  std::vector<std::byte> workspace(column_sum_workspace_bytes({rows, 1}));
  column_sum<float>({rows, 1}, x.data(), sums.data(), workspace);
  EXPECT_EQ(sums[0], static_cast<float>(rows));
}

TEST(Elementwise, WorkspaceThatIsTooSmallIsRefused) {
  std::vector<float> x(100), sums(10);
  std::vector<std::byte> workspace(column_sum_workspace_bytes({10, 10}) - 1);
  EXPECT_THROW(column_sum<float>({10, 10}, x.data(), sums.data(), workspace), std::runtime_error);
}

}  // namespace of_pointwise_test
}  // namespace shoal::kernels::test
