// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/outer.hpp"
#include "shoal/kernels/difference.hpp"

#include <bit>

#include "kernel_test.hpp"

namespace shoal::kernels::test {
namespace of_outer_test {

constexpr OuterStep step = {0.5F, 0.7F, 0.05F};

/// Values of x, outer and u, in double.
struct Rule {
  double x, outer, u;
};
Rule slow(Rule v) {
  const double u = step.momentum * v.u + (v.outer - v.x) / step.inner_rate;
  const double outer = v.outer - step.rate * step.inner_rate * u;
  return {outer, outer, u};
}
Rule nesterov(Rule v) {
  const double d = v.outer - v.x, u = step.momentum * v.u + d;
  const double outer = v.outer - step.rate * (d + step.momentum * u);
  return {outer, outer, u};
}

template <typename Kernel>
void expect_rule(const Kernel& kernel, Rule (*rule)(Rule), double largest) {
  for (const std::size_t n : odd_sizes) {
    std::vector<float> x = numbers(n, 1), outer = numbers(n, 2), u = numbers(n, 3);
    std::vector<double> want_x(n), want_u(n);
    for (std::size_t i = 0; i < n; ++i) {
      const Rule want = rule({x[i], outer[i], u[i]});
      want_x[i] = want.x;
      want_u[i] = want.u;
    }
    kernel(n, step, outer.data(), u.data(), x.data());
    expect_near(u, want_u, 3, largest);  // a difference, a division, a product with a sum
    expect_near(x, want_x, 4, 8);        // u times rates of at most 0.035, which have two more roundings
    EXPECT_TRUE(same_bits(x, outer));
  }
}

TEST(Outer, SlowMomentumIsTheReference) { expect_rule(slow_momentum, slow, 81); }  // 0.5 x 2 + 4 / 0.05
TEST(Outer, NesterovIsTheReference) { expect_rule(outer_nesterov, nesterov, 5); }  // 0.5 x 2 + 4

TEST(Outer, AtRestNothingMoves) {
  const std::vector<float> start = numbers(1000, 1);
  for (const auto kernel : {slow_momentum, outer_nesterov}) {
    std::vector<float> x = start, outer = start, u(1000);
    kernel(x.size(), step, outer.data(), u.data(), x.data());
    EXPECT_TRUE(same_bits(x, start));
    EXPECT_TRUE(same_bits(u, std::vector<float>(1000)));
  }
}

TEST(Outer, MeansAreTheReference) {
  for (const std::size_t n : odd_sizes) {
    const std::vector<float> start = numbers(n, 1), other = numbers(n, 2), before = numbers(n, 3);
    std::vector<float> third = start, half = start, late = start, carried = start;
    divide(n, 3, third.data());
    average_with(n, other.data(), half.data());
    average_with_stale(n, other.data(), before.data(), late.data());
    rebase(n, other.data(), before.data(), carried.data());
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(third[i], start[i] / 3.0F);
      EXPECT_EQ(half[i], (start[i] + other[i]) / 2.0F);
      EXPECT_NEAR(late[i], start[i] + (static_cast<double>(other[i]) - before[i]) / 2, 3 * 0x1p-24 * 4);
      EXPECT_EQ(carried[i], other[i] + (start[i] - before[i]));
    }
  }
}

TEST(Outer, SwapExchangesAllBits) {
  for (const std::size_t n : odd_sizes) {
    std::vector<float> first = numbers(n, 1), second = numbers(n, 2);
    first.front() = std::bit_cast<float>(0xffffffffU);  // NaNs are not numbers to compute with, but bits to move
    second.back() = std::bit_cast<float>(0x7fc01234U);
    std::vector<float> x = first, y = second;
    swap(n, x.data(), y.data());
    EXPECT_TRUE(same_bits(x, second));
    EXPECT_TRUE(same_bits(y, first));
  }
}

TEST(Outer, DifferencesAreRoundedAndTakenBack) {
  for (const std::size_t n : odd_sizes) {
    const std::vector<float> x = numbers(n, 1), base = numbers(n, 2);
    std::vector<bf16> difference(n);
    std::vector<float> back(n), exact(n), exactly_back(n);
    subtract(DType::bf16, n, x.data(), base.data(), difference.data());
    add_to_base(DType::bf16, n, base.data(), difference.data(), 4, back.data());
    subtract(DType::f32, n, x.data(), base.data(), exact.data());
    add_to_base(DType::f32, n, base.data(), exact.data(), 1, exactly_back.data());
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(difference[i].bits, bf16(x[i] - base[i]).bits);
      EXPECT_EQ(back[i], base[i] + static_cast<float>(difference[i]) / 4.0F);
      EXPECT_EQ(exact[i], x[i] - base[i]);
      EXPECT_NEAR(exactly_back[i], x[i], 2 * 0x1p-24 * 4);
    }
  }
}

TEST(Outer, DoesNotDependOnWhereASliceBegins) {
  const std::vector<float> start = numbers(1000, 1), other = numbers(1000, 2), moment = numbers(1000, 3);
  for (const auto kernel : {slow_momentum, outer_nesterov}) {
    std::vector<float> x = start, outer = other, u = moment, y = start, again = other, v = moment;
    kernel(1000, step, outer.data(), u.data(), x.data());
    kernel(333, step, again.data(), v.data(), y.data());
    kernel(667, step, &again[333], &v[333], &y[333]);
    EXPECT_TRUE(same_bits(x, y));
    EXPECT_TRUE(same_bits(u, v));
  }
}

}  // namespace of_outer_test
}  // namespace shoal::kernels::test
