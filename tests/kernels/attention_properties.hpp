// SPDX-License-Identifier: Apache-2.0
// What every implementation of attention must do. A program that includes this defines implementations().
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/reference.hpp"
#include "kernels/runtime_environment.hpp"

namespace shoal::kernels {

inline constexpr Dropout no_dropout{};
inline constexpr Dropout some_dropout{.probability = 0.25F, .key = 77, .step = 3, .first_sample = 40, .site = 9};

template <typename T>
struct Implementation {
  std::string name;
  decltype(&attention_forward<T>) forward;
  decltype(&attention_backward<T>) backward;
  // Rows of the same block may be NaN if one of them is, since NaN is multiplied by zero: row `nan` and row `free` are never
  // in the same block.
  std::size_t nan, free;
};
/// The implementations of this program that this process can use.
template <typename T>
std::vector<Implementation<T>> implementations();

template <typename T>
struct Case {
  AttentionShape shape;
  Dropout dropout;
  std::vector<T> qkv, dout, out, dqkv;
  std::vector<float> logsumexp;
  std::vector<std::byte> workspace;

  Case(const AttentionShape& s, const Dropout& d, float size = 2.0F)
      : shape(s),
        dropout(d),
        qkv(reference::numbers<T>(s.B * s.T * 3 * s.C, 1)),
        dout(reference::numbers<T>(s.B * s.T * s.C, 2)),
        out(s.B * s.T * s.C),
        dqkv(qkv.size()),
        logsumexp(s.B * s.NH * s.T),
        workspace(attention_workspace_bytes<T>(s)) {
    for (T& x : qkv) x = T(size * static_cast<float>(x));
    // Results must not depend on earlier contents of the workspace or the outputs. All bits set is NaN.
    std::memset(workspace.data(), 0xff, workspace.size());
    std::memset(static_cast<void*>(dqkv.data()), 0xff, dqkv.size() * sizeof(T));
    std::memset(static_cast<void*>(out.data()), 0xff, out.size() * sizeof(T));
  }
  AttentionOutputs<T> outputs() { return {.out = out.data(), .logsumexp = logsumexp.data()}; }
  AttentionBackwardInputs<T> backward_inputs() const {
    return {.qkv = qkv.data(), .out = out.data(), .logsumexp = logsumexp.data(), .dout = dout.data()};
  }
  Case& run(const Implementation<T>& by) {
    by.forward(shape, qkv.data(), outputs(), dropout, workspace);
    by.backward(shape, backward_inputs(), dqkv.data(), dropout, workspace);
    return *this;
  }
  reference::Attention expected() const {
    const std::vector<double> d(dout.begin(), dout.end());
    return reference::attention<T>(shape, qkv.data(), d.data(), dropout);
  }
};

template <typename T>
bool same_results(const Case<T>& a, const Case<T>& b) {
  return std::memcmp(a.out.data(), b.out.data(), a.out.size() * sizeof(T)) == 0 &&
         std::memcmp(a.dqkv.data(), b.dqkv.data(), a.dqkv.size() * sizeof(T)) == 0 && a.logsumexp == b.logsumexp;
}

/// The largest difference, relative to the largest expected value.
template <typename T>
double distance(const std::vector<T>& is, const std::vector<double>& expected) {
  double largest = 0.0, difference = 0.0;
  for (std::size_t i = 0; i < is.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const double here = std::abs(static_cast<double>(is[i]) - expected[i]);
    difference = here <= difference ? difference : here;  // NaN stays
  }
  return difference / largest;
}

inline std::vector<AttentionShape> shapes() {
  std::vector<AttentionShape> all;
  for (const std::size_t T : {1, 7, 65, 100}) {
    for (const std::size_t HS : {16, 32, 64, 80}) all.push_back({2, T, 3 * HS, 3});
  }
  all.push_back({1, 5, 14, 2});    // a head size of 7: neither a vector nor a pair of bf16
  all.push_back({1, 300, 64, 1});  // several strips of keys and chunks of queries
  all.push_back({1, 600, 40, 2});
  all.push_back({1, 48, 64, 1});
  all.push_back({1, 192, 64, 1});
  for (const std::size_t HS : {512, 528, 1024}) all.push_back({1, 9, HS, 1});
  all.push_back({1, 21, 720, 1});
  all.push_back({1, 32, 256, 2});  // a head size of 128; T and head size are whole tiles, and then slightly more
  all.push_back({1, 33, 66, 2});
  all.push_back({2, 289, 128, 1});  // the second strip of keys has a single block of queries
  return all;
}

template <typename T>
class Attention : public testing::Test {};
using Types = testing::Types<float, bf16, f16>;

/// Selects by type: float, bf16, f16.
template <typename T>
double one_of(double f32, double b16, double h16) {
  return std::is_same_v<T, float> ? f32 : std::is_same_v<T, bf16> ? b16 : h16;
}
TYPED_TEST_SUITE(Attention, Types);

// Scores are sums of HS products of size 4. fp32: each term has a rounding of 2^-24, and the exponential passes it on.
// HS 2^-24 * 16 is an upper bound near 1e-4; errors are random, so the limit is 1e-5. bf16: the probabilities, the
// derivatives of the scores and the results are rounded to 2^-9, and a few of these roundings add up. fp16: computed in
// fp32, so only the results are rounded, to 2^-11 of their size, and so is `out`, which backward reads.
TYPED_TEST(Attention, IsTheDefinition) {
  for (const AttentionShape& shape : shapes()) {
    for (const Dropout& dropout : {no_dropout, some_dropout}) {
      SCOPED_TRACE(testing::Message() << "T " << shape.T << ", HS " << shape.C / shape.NH << ", dropout "
                                      << dropout.probability);
      const reference::Attention expected = Case<TypeParam>(shape, dropout).expected();
      for (const auto& by : implementations<TypeParam>()) {
        SCOPED_TRACE(by.name);
        Case<TypeParam> c(shape, dropout);
        c.run(by);
        EXPECT_LE(distance(c.out, expected.out), one_of<TypeParam>(1e-5, 0.008, 5e-4));
        EXPECT_LE(distance(c.logsumexp, expected.logsumexp), 1e-5);
        EXPECT_LE(distance(c.dqkv, expected.dqkv), one_of<TypeParam>(1e-5, 0.015, 1e-3));
      }
    }
  }
}

TYPED_TEST(Attention, LargeScoresDoNotOverflow) {
  for (const auto& by : implementations<TypeParam>()) {
    SCOPED_TRACE(by.name);
    Case<TypeParam> c({1, 70, 64, 1}, no_dropout, 60.0F);  // scores of thousands
    c.run(by);
    const reference::Attention expected = c.expected();
    EXPECT_LE(distance(c.out, expected.out), 0.01);
    EXPECT_LE(distance(c.logsumexp, expected.logsumexp), 1e-5);
  }
}

TYPED_TEST(Attention, DoesNotDependOnThreads) {
  for (const auto& by : implementations<TypeParam>()) {
    for (const Dropout& dropout : {no_dropout, some_dropout}) {
      Case<TypeParam> one({3, 100, 96, 3}, dropout);
      one.run(by);
      for (const int threads : {2, 3}) {
        const WithThreads with(threads);
        Case<TypeParam> several({3, 100, 96, 3}, dropout);
        EXPECT_TRUE(same_results(one, several.run(by))) << by.name << ", " << threads << " threads";
      }
    }
  }
}

TYPED_TEST(Attention, DoesNotSeeTheFuture) {
  for (const auto& by : implementations<TypeParam>()) {
    const AttentionShape shape{1, 90, 64, 1};
    Case<TypeParam> c(shape, no_dropout), changed(shape, no_dropout);
    for (std::size_t i = 50 * 3 * shape.C; i < c.qkv.size(); ++i) changed.qkv[i] = TypeParam(3.0F);
    c.run(by);
    changed.run(by);
    EXPECT_EQ(std::memcmp(c.out.data(), changed.out.data(), 50 * shape.C * sizeof(TypeParam)), 0) << by.name;
    EXPECT_NE(std::memcmp(c.out.data(), changed.out.data(), 51 * shape.C * sizeof(TypeParam)), 0) << by.name;
  }
}

TYPED_TEST(Attention, NaNInGivesNaNOut) {
  for (const auto& by : implementations<TypeParam>()) {
    for (const std::size_t part : {0, 1, 2}) {
      SCOPED_TRACE(testing::Message() << by.name << ", part " << part);
      const AttentionShape shape{1, by.nan + 20, 64, 1};
      Case<TypeParam> c(shape, no_dropout);
      c.qkv[by.nan * 3 * shape.C + part * shape.C + 5] = TypeParam(std::numeric_limits<float>::quiet_NaN());
      c.run(by);
      const auto nan = [&](std::size_t r, std::size_t channel) {
        return std::isnan(static_cast<float>(c.out[r * shape.C + channel]));
      };
      EXPECT_TRUE(nan(by.nan, 5));
      EXPECT_EQ(nan(by.nan + 19, 5), part != 0);
      EXPECT_FALSE(nan(by.free, 5));
      EXPECT_TRUE(std::isnan(static_cast<float>(c.dqkv[by.nan * 3 * shape.C + (part == 2 ? 0 : part) * shape.C + 5])));
    }
  }
}

}  // namespace shoal::kernels
