// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/attention_amx.hpp"
#include "kernels/reference.hpp"
#include "kernels/runtime_environment.hpp"

namespace shoal::kernels {

namespace {

using attention::Backend;

constexpr Dropout no_dropout{};
constexpr Dropout some_dropout{.probability = 0.25F, .key = 77, .step = 3, .first_sample = 40, .site = 9};

template <typename T>
struct Case {
  AttentionShape shape;
  Dropout dropout;
  std::vector<T> qkv, dout, out, dqkv;
  std::vector<float> logsumexp;
  std::vector<std::byte> workspace;
  Backend backend = attention::backend<T>();

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
  Case& by(Backend b) {
    backend = b;
    return *this;
  }
  AttentionOutputs<T> outputs() { return {.out = out.data(), .logsumexp = logsumexp.data()}; }
  AttentionBackwardInputs<T> backward_inputs() const {
    return {.qkv = qkv.data(), .out = out.data(), .logsumexp = logsumexp.data(), .dout = dout.data()};
  }
  Case& run() {
    attention::forward_by<T>(backend, shape, qkv.data(), outputs(), dropout, workspace);
    attention::backward_by<T>(backend, shape, backward_inputs(), dqkv.data(), dropout, workspace);
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

/// The backends that this process can use for T.
template <typename T>
std::vector<Backend> backends() {
  if (attention::backend<T>() == Backend::tiles) return {Backend::vectors, Backend::tiles};
  return {Backend::vectors};
}
const char* name_of(Backend backend) { return backend == Backend::tiles ? "by tiles" : "by vectors"; }

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

std::vector<AttentionShape> shapes() {
  std::vector<AttentionShape> all;
  for (const std::size_t T : {1, 7, 65, 100}) {
    for (const std::size_t HS : {16, 32, 64, 80}) all.push_back({2, T, 3 * HS, 3});
  }
  all.push_back({1, 5, 14, 2});    // a head size of 7: neither a vector nor a pair of bf16
  all.push_back({1, 300, 64, 1});  // several strips of keys and chunks of queries
  all.push_back({1, 600, 40, 2});
  all.push_back({1, 48, 64, 1});
  all.push_back({1, 192, 64, 1});
  all.push_back({1, 9, 512, 1});
  all.push_back({1, 32, 256, 2});  // a head size of 128; T and head size are whole tiles, and then slightly more
  all.push_back({1, 33, 66, 2});
  all.push_back({2, 289, 128, 1});  // the second strip of keys has a single block of queries
  return all;
}

}  // namespace

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
      for (const Backend backend : backends<TypeParam>()) {
        SCOPED_TRACE(name_of(backend));
        Case<TypeParam> c(shape, dropout);
        c.by(backend).run();
        EXPECT_LE(distance(c.out, expected.out), one_of<TypeParam>(1e-5, 0.008, 5e-4));
        EXPECT_LE(distance(c.logsumexp, expected.logsumexp), 1e-5);
        EXPECT_LE(distance(c.dqkv, expected.dqkv), one_of<TypeParam>(1e-5, 0.015, 1e-3));
      }
    }
  }
}

TYPED_TEST(Attention, LargeScoresDoNotOverflow) {
  for (const Backend backend : backends<TypeParam>()) {
    SCOPED_TRACE(name_of(backend));
    Case<TypeParam> c({1, 70, 64, 1}, no_dropout, 60.0F);  // scores of thousands
    c.by(backend).run();
    const reference::Attention expected = c.expected();
    EXPECT_LE(distance(c.out, expected.out), 0.01);
    EXPECT_LE(distance(c.logsumexp, expected.logsumexp), 1e-5);
  }
}

TYPED_TEST(Attention, DoesNotDependOnThreads) {
  for (const Backend backend : backends<TypeParam>()) {
    for (const Dropout& dropout : {no_dropout, some_dropout}) {
      Case<TypeParam> one({3, 100, 96, 3}, dropout);
      one.by(backend).run();
      for (const int threads : {2, 3}) {
        const WithThreads with(threads);
        Case<TypeParam> several({3, 100, 96, 3}, dropout);
        EXPECT_TRUE(same_results(one, several.by(backend).run())) << name_of(backend) << ", " << threads << " threads";
      }
    }
  }
}

TYPED_TEST(Attention, UsesThisProcessesBackend) {
  Case<TypeParam> c({1, 70, 64, 1}, no_dropout), d(c);
  c.run();
  attention_forward<TypeParam>(d.shape, d.qkv.data(), d.outputs(), d.dropout, d.workspace);
  attention_backward<TypeParam>(d.shape, d.backward_inputs(), d.dqkv.data(), d.dropout, d.workspace);
  EXPECT_TRUE(same_results(c, d));
}

TYPED_TEST(Attention, DoesNotSeeTheFuture) {
  for (const Backend backend : backends<TypeParam>()) {
    const AttentionShape shape{1, 90, 64, 1};
    Case<TypeParam> c(shape, no_dropout), changed(shape, no_dropout);
    for (std::size_t i = 50 * 3 * shape.C; i < c.qkv.size(); ++i) changed.qkv[i] = TypeParam(3.0F);
    c.by(backend).run();
    changed.by(backend).run();
    EXPECT_EQ(std::memcmp(c.out.data(), changed.out.data(), 50 * shape.C * sizeof(TypeParam)), 0) << name_of(backend);
    EXPECT_NE(std::memcmp(c.out.data(), changed.out.data(), 51 * shape.C * sizeof(TypeParam)), 0) << name_of(backend);
  }
}

TYPED_TEST(Attention, NaNInGivesNaNOut) {
  for (const Backend backend : backends<TypeParam>()) {
    for (const std::size_t part : {0, 1, 2}) {
      SCOPED_TRACE(testing::Message() << name_of(backend) << ", part " << part);
      // Rows of the same block may be NaN, too, since NaN is multiplied by zero: rows from 18 on with vectors, from 32 on
      // with tiles.
      const std::size_t row = backend == Backend::tiles ? 44 : 20, free = backend == Backend::tiles ? 31 : 11;
      const AttentionShape shape{1, row + 20, 64, 1};
      Case<TypeParam> c(shape, no_dropout);
      c.qkv[row * 3 * shape.C + part * shape.C + 5] = TypeParam(std::numeric_limits<float>::quiet_NaN());
      c.by(backend).run();
      const auto nan = [&](std::size_t r, std::size_t channel) {
        return std::isnan(static_cast<float>(c.out[r * shape.C + channel]));
      };
      EXPECT_TRUE(nan(row, 5));
      EXPECT_EQ(nan(row + 19, 5), part != 0);
      EXPECT_FALSE(nan(free, 5));
      EXPECT_TRUE(std::isnan(static_cast<float>(c.dqkv[row * 3 * shape.C + (part == 2 ? 0 : part) * shape.C + 5])));
    }
  }
}

// Compares backward with forward alone: a directional derivative of sum(dout * out), by central differences. With h = 2^-6
// their error is about h^2 of the value, and that of rounding 2^-24 * |loss| / h.
TEST(AttentionDerivative, IsWhatFiniteDifferencesSay) {
  for (const Dropout& dropout : {no_dropout, some_dropout}) {
    const AttentionShape shape{2, 33, 48, 3};
    Case<float> c(shape, dropout, 1.0F);
    c.run();
    const std::vector<float> direction = reference::numbers<float>(c.qkv.size(), 5), qkv = c.qkv, gradient = c.dqkv;
    const auto loss = [&](float h) {
      for (std::size_t i = 0; i < qkv.size(); ++i) c.qkv[i] = qkv[i] + h * direction[i];
      attention_forward<float>(shape, c.qkv.data(), c.outputs(), dropout, c.workspace);
      double sum = 0.0;
      for (std::size_t i = 0; i < c.out.size(); ++i) sum += static_cast<double>(c.out[i]) * static_cast<double>(c.dout[i]);
      return sum;
    };
    double along = 0.0;
    for (std::size_t i = 0; i < qkv.size(); ++i)
      along += static_cast<double>(gradient[i]) * static_cast<double>(direction[i]);
    const float h = 0x1p-6F;
    EXPECT_NEAR((loss(h) - loss(-h)) / (2.0 * static_cast<double>(h)), along, 2e-3 * std::max(1.0, std::abs(along)));
  }
}

#if defined(SHOAL_AMX)
class AttentionByTiles : public testing::Test {
  void SetUp() override {
    if (attention::backend<bf16>() != Backend::tiles) GTEST_SKIP() << "this process has no tile registers";
  }
};

// The library's products configure the same registers for themselves.
TEST_F(AttentionByTiles, AndMatrixProductsDoNotDisturbEachOther) {
  const AttentionShape shape{1, 100, 96, 1};
  const auto product = [&] {
    const std::vector<bf16> a = reference::numbers<bf16>(70 * 50, 3), b = reference::numbers<bf16>(50 * 60, 4);
    std::vector<float> c(70 * 60);
    std::vector<std::byte> workspace(matmul_workspace_bytes<bf16, float>({.m = 70, .n = 60, .k = 50}));
    matmul<bf16, float>("product", {.a = {a.data(), 70, 50}, .b = {b.data(), 50, 60}}, {c.data(), 70, 60}, workspace);
    return c;
  };
  const std::vector<float> alone = product();
  Case<bf16> before(shape, no_dropout), after(shape, no_dropout);
  before.by(Backend::tiles).run();
  EXPECT_EQ(product(), alone);
  EXPECT_TRUE(same_results(before, after.by(Backend::tiles).run()));
}

// A relative error of at most 3e-6, and 2^-126 for all smaller results.
TEST_F(AttentionByTiles, ExponentialsAreFarBetterThanRounding) {
  const auto power = [](float x) { return attention::tiled::quick_exp2(simd::broadcast(x))[0]; };
  double largest = 0.0;
  for (int i = 0; i <= 126 * 4096; ++i) {
    const float x = -static_cast<float>(i) / 4096.0F;
    const double expected = std::exp2(static_cast<double>(x));
    largest = std::max(largest, std::abs(static_cast<double>(power(x)) - expected) / expected);
  }
  EXPECT_LE(largest, 3e-6);
  EXPECT_EQ(power(0.0F), 1.0F);
  EXPECT_EQ(power(-1000.0F), 0x1p-126F);
  EXPECT_EQ(power(-INFINITY), 0x1p-126F);
  EXPECT_TRUE(std::isnan(power(std::numeric_limits<float>::quiet_NaN())));
}
#endif

TYPED_TEST(Attention, DecodingIsTheLastRow) {
  for (const std::size_t HS : {7, 16, 64, 300}) {
    const AttentionShape shape{1, 37, 2 * HS, 2};
    Case<TypeParam> c(shape, no_dropout);
    const std::size_t last = shape.T - 1, stride = 3 * shape.C;
    std::vector<TypeParam> out(shape.C);
    attention_decode<TypeParam>(
        2, HS, c.qkv.data() + last * stride,
        {.keys = c.qkv.data() + shape.C, .values = c.qkv.data() + 2 * shape.C, .stride = stride, .length = shape.T},
        out.data());
    const std::vector<double> all = c.expected().out;
    const std::vector<double> expected(all.end() - static_cast<std::ptrdiff_t>(shape.C), all.end());
    EXPECT_LE(distance(out, expected), one_of<TypeParam>(1e-5, 0.005, 5e-4)) << HS;
  }
}

}  // namespace shoal::kernels
