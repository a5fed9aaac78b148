// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/matmul.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "kernels/reference.hpp"
#include "kernels/roundoff.hpp"
#include "kernels/runtime_environment.hpp"
#include "kernels/tiling.hpp"
#include "kernels/widened.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::kernels {

namespace {

template <typename T, typename R>
struct Types {
  using Operand = T;
  using Result = R;
};

/// Allocates at the start of a cache line: only then our kernels store whole lines.
template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t line{64};
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), line)); }
  void deallocate(T* at, std::size_t /*n*/) { ::operator delete(at, line); }
  bool operator==(const LineAllocator&) const = default;
};
template <typename T>
using Lines = std::vector<T, LineAllocator<T>>;

template <typename T>
Lines<T> in_lines(const std::vector<T>& v) {
  return {v.begin(), v.end()};
}

struct Options {
  Transpose a = Transpose::no, b = Transpose::no;
  bool accumulate = false;  ///< add to what C held
};

/// A product whose operands have `gap` elements between their rows.
template <typename T, typename R>
struct Case {
  std::size_t m, n, k;
  Options options;
  bool with_bias;
  std::size_t gap;
  std::vector<T> a_data, b_data, bias;
  Lines<R> c_data;
  std::vector<std::byte> workspace;

  Case(std::size_t rows, std::size_t columns, std::size_t inner, const Options& o, bool with, std::size_t between)
      : m(rows),
        n(columns),
        k(inner),
        options(o),
        with_bias(with),
        gap(between),
        a_data(reference::numbers<T>((a_rows()) * (a_columns() + gap), 1)),
        b_data(reference::numbers<T>((b_rows()) * (b_columns() + gap), 2)),
        bias(reference::numbers<T>(n, 3)),
        c_data(in_lines(reference::numbers<R>(m * (n + gap), 4))),
        workspace(matmul_workspace_bytes<T, R>({.m = m,
                                                .n = n,
                                                .k = k,
                                                .transpose_a = options.a,
                                                .transpose_b = options.b,
                                                .bias = with,
                                                .added = options.accumulate,
                                                .a_stride = a().stride,
                                                .b_stride = b().stride,
                                                .c_stride = n + gap})) {}

  std::size_t a_rows() const { return options.a == Transpose::yes ? k : m; }
  std::size_t a_columns() const { return options.a == Transpose::yes ? m : k; }
  std::size_t b_rows() const { return options.b == Transpose::yes ? n : k; }
  std::size_t b_columns() const { return options.b == Transpose::yes ? k : n; }
  Matrix<const T> a() const { return {a_data.data(), a_rows(), a_columns(), a_columns() + gap}; }
  Matrix<const T> b() const { return {b_data.data(), b_rows(), b_columns(), b_columns() + gap}; }
  Matrix<R> c() { return {c_data.data(), m, n, n + gap}; }
  MatmulInputs<T, R> inputs() const {
    return {.a = a(),
            .b = b(),
            .transpose_a = options.a,
            .transpose_b = options.b,
            .bias = with_bias ? bias.data() : nullptr,
            .added = options.accumulate ? c_data.data() : nullptr};
  }

  void run() { matmul("test", inputs(), c(), workspace); }
  /// Adds another matrix than C.
  void run_with(const R* added) {
    MatmulInputs<T, R> in = inputs();
    in.added = added;
    matmul("test", in, c(), workspace);
  }

  /// Each of k roundings in float has an error of at most 2^-24 of the sum of magnitudes, with a random sign, so that they
  /// add up to sqrt(k) of them. Then the result is rounded.
  double tolerance(double value, double magnitude) const {
    return (std::sqrt(static_cast<double>(k)) + 2.0) * 0x1p-24 * magnitude + roundoff<R> * std::abs(value) * 1.01 +
           subnormal_roundoff<R>;
  }

  void check() {
    const reference::Product expected = reference::matmul(inputs(), c());
    const Lines<R> before = c_data;
    run();
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const double value = expected.value[i * n + j];
        ASSERT_NEAR(static_cast<double>(c_data[i * (n + gap) + j]), value, tolerance(value, expected.magnitude[i * n + j]))
            << i << ", " << j;
      }
      expect_untouched(before, i);
    }
  }

  /// Checks only some rows, for a large product.
  void check_rows(const std::vector<std::size_t>& rows) {
    const Lines<R> before = c_data;
    run();
    for (const std::size_t row : rows) {
      if (row >= m) continue;
      std::vector<T> left(k);
      const Matrix<const T> whole = a();
      for (std::size_t i = 0; i < k; ++i) {
        left[i] = options.a == Transpose::yes ? whole.data[i * whole.stride + row] : whole.data[row * whole.stride + i];
      }
      std::vector<R> held(before.data() + row * (n + gap), before.data() + row * (n + gap) + n);
      MatmulInputs<T, R> in = inputs();
      in.a = Matrix<const T>(left.data(), 1, k);
      in.transpose_a = Transpose::no;
      if (options.accumulate) in.added = held.data();
      const reference::Product expected = reference::matmul(in, Matrix<R>(held.data(), 1, n));
      for (std::size_t j = 0; j < n; ++j) {
        ASSERT_NEAR(static_cast<double>(c_data[row * (n + gap) + j]), expected.value[j],
                    tolerance(expected.value[j], expected.magnitude[j]))
            << row << ", " << j;
      }
      expect_untouched(before, row);
    }
  }

  void expect_untouched(const Lines<R>& before, std::size_t row) const {
    const std::size_t end = row * (n + gap) + n;
    ASSERT_EQ(std::memcmp(c_data.data() + end, before.data() + end, gap * sizeof(R)), 0) << "beyond row " << row;
  }
};

constexpr std::array transposes = {Transpose::no, Transpose::yes};

}  // namespace

template <typename T>
class Matmul : public testing::Test {};
using AllTypes =
    testing::Types<Types<float, float>, Types<bf16, bf16>, Types<bf16, float>, Types<f16, f16>, Types<f16, float>>;
TYPED_TEST_SUITE(Matmul, AllTypes);

TYPED_TEST(Matmul, IsTheDefinition) {
  const std::array<std::array<std::size_t, 3>, 8> sizes = {
      {{1, 1, 1}, {1, 65, 33}, {3, 5, 7}, {17, 1, 40}, {64, 48, 32}, {65, 63, 129}, {300, 100, 20}, {7, 300, 1}}};
  for (const auto& [m, n, k] : sizes) {
    for (const Transpose a : transposes) {
      for (const Transpose b : transposes) {
        for (const bool accumulate : {false, true}) {
          for (const bool bias : {false, true}) {
            for (const std::size_t gap : {0, 3}) {
              SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << (a == Transpose::yes ? " A'" : "")
                                              << (b == Transpose::yes ? " B'" : "") << (accumulate ? " added" : "")
                                              << (bias ? " bias" : "") << " gap " << gap);
              Case<typename TypeParam::Operand, typename TypeParam::Result>(m, n, k, {a, b, accumulate}, bias, gap).check();
            }
          }
        }
      }
    }
  }
}

// Large enough to be cut in both directions, with all four kinds of tiles at the edges.
TYPED_TEST(Matmul, OfManyTilesIsTheDefinition) {
  using T = typename TypeParam::Operand;
  using R = typename TypeParam::Result;
  const std::size_t m = 600, n = 700, k = 20000;
  for (const Transpose b : transposes) {
    const ProductShape shape{m, n, k, Transpose::no, b, dtype_of<T>, dtype_of<R>};
    if (!is_widened(dtype_of<T>)) {  // they are cut into panels, of 64 rows and columns for such a large k
      const Tiling tiling = tiling_of(shape, 1);
      ASSERT_FALSE(is_blocked(shape));
      ASSERT_GT(tiling.down(shape), 1U);
      if (dtype_of<T> == DType::bf16 || b == Transpose::no) {
        ASSERT_GT(tiling.across(shape), 1U);
      }
    }
    Case<T, R>(m, n, k, {.b = b}, true, 0).check_rows({0, m / 2, m - 1});
  }
}

// For our own kernels: several blocks of rows, A packed more than once, sums of one KC and of several, edges within a
// micro-panel. The library computes the same products.
TYPED_TEST(Matmul, OfManyBlocksIsTheDefinition) {
  using T = typename TypeParam::Operand;
  using R = typename TypeParam::Result;
  const std::array<std::array<std::size_t, 3>, 6> sizes = {
      {{500, 2100, 1100}, {402, 97, 385}, {390, 130, 384}, {33, 49, 129}, {1000, 40, 3000}, {1001, 1400, 2000}}};
  const ProductShape large{1001, 1400, 2000, Transpose::no, Transpose::no, dtype_of<T>, dtype_of<R>};
  ASSERT_GT(tiling_of(large, 1).down(large) * tiling_of(large, 1).across(large), 1U);
  for (const auto& [m, n, k] : sizes) {
    for (const Transpose a : transposes) {
      for (const Transpose b : transposes) {
        for (const bool accumulate : {false, true}) {
          if (m * n * k > 1'000'000'000 && (a == b) == accumulate) continue;  // only half of the large ones, to save time
          SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << (a == Transpose::yes ? " A'" : "")
                                          << (b == Transpose::yes ? " B'" : "") << (accumulate ? " added" : ""));
          // With even n, rows of C are whole cache lines, which our kernels store in another way.
          Case<T, R>(m, n, k, {a, b, accumulate}, !accumulate, n % 2 == 0 ? 32 - n % 32 : 1)
              .check_rows({0, m / 3, 383, m - 1});
        }
      }
    }
  }
}

// Weight gradients, cut by rows.
TYPED_TEST(Matmul, OfManyTilesWithATransposedIsTheDefinition) {
  for (const Transpose b : transposes) {
    Case<typename TypeParam::Operand, typename TypeParam::Result>(150, 40, 4000, {Transpose::yes, b, true}, false, 5)
        .check();
  }
}

// The result is the same as if C had held the other matrix: for products by our kernels, in blocks and tiles, in whole cache
// lines and parts of them, and by the library.
TYPED_TEST(Matmul, AddsAnotherMatrix) {
  using T = typename TypeParam::Operand;
  using R = typename TypeParam::Result;
  const std::array<std::array<std::size_t, 3>, 4> sizes = {{{3, 5, 7}, {70, 64, 40}, {420, 97, 500}, {97, 64, 300}}};
  for (const auto& [m, n, k] : sizes) {
    for (const Transpose a : transposes) {
      for (const bool bias : {false, true}) {
        SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << (a == Transpose::yes ? " A'" : "")
                                        << (bias ? " bias" : ""));
        Case<T, R> into(m, n, k, {a, Transpose::no, true}, bias, 0), beside(m, n, k, {a, Transpose::no, true}, bias, 0);
        const Lines<R> added = beside.c_data;
        std::fill(beside.c_data.begin(), beside.c_data.end(), R(std::nanf("")));
        into.run();
        beside.run_with(added.data());
        ASSERT_EQ(std::memcmp(into.c_data.data(), beside.c_data.data(), m * n * sizeof(R)), 0);
      }
    }
  }
}

TYPED_TEST(Matmul, DoesNotDependOnThreads) {
  using T = typename TypeParam::Operand;
  using R = typename TypeParam::Result;
  for (const Transpose a : transposes) {
    for (const Transpose b : transposes) {
      Case<T, R> one(900, 260, 130, {a, b, false}, false, 0);
      one.run();
      for (const int threads : {2, 3}) {
        const WithThreads with(threads);
        Case<T, R> several(900, 260, 130, {a, b, false}, false, 0);
        several.run();
        ASSERT_EQ(std::memcmp(one.c_data.data(), several.c_data.data(), one.c_data.size() * sizeof(R)), 0) << threads;
      }
    }
  }
}

TYPED_TEST(Matmul, KeepsNaN) {
  Case<typename TypeParam::Operand, typename TypeParam::Result> c(40, 30, 20, {}, false, 0);
  c.a_data[7 * 20 + 3] = typename TypeParam::Operand(std::nanf(""));
  c.run();
  EXPECT_TRUE(std::isnan(static_cast<float>(c.c_data[7 * 30 + 11])));
  EXPECT_FALSE(std::isnan(static_cast<float>(c.c_data[6 * 30 + 11])));
}

// By all kernels, also if floats are multiplied as sums of bf16.
TEST(MatmulF32, IsExactWhereFloatsAre) {
  Case<float, float> c(70, 50, 300, {}, false, 0);
  const auto whole = [](std::size_t i) { return static_cast<float>(static_cast<int>(i * 2654435761U % 4001U) - 2000); };
  for (std::size_t i = 0; i < c.a_data.size(); ++i) c.a_data[i] = whole(i);  // 11 bits and a sign
  for (std::size_t i = 0; i < c.b_data.size(); ++i) c.b_data[i] = static_cast<float>(static_cast<int>(i % 41) - 20);
  c.run();
  for (std::size_t i = 0; i < c.m; ++i) {
    for (std::size_t j = 0; j < c.n; ++j) {
      double sum = 0.0;  // below 300 * 2000 * 20 < 2^24
      for (std::size_t l = 0; l < c.k; ++l) sum += double{c.a_data[i * c.k + l]} * double{c.b_data[l * c.n + j]};
      ASSERT_EQ(double{c.c_data[i * c.n + j]}, sum) << i << ", " << j;
    }
  }
}

TEST(MatmulF32, IsAsExactAsMultiplyAdds) {
  for (const std::size_t k : {64, 384, 3000}) {
    Case<float, float> c(64, 48, k, {}, false, 0);
    for (std::size_t i = 0; i < c.a_data.size(); ++i) c.a_data[i] = std::ldexp(c.a_data[i], static_cast<int>(i % 7) - 3);
    c.run();
    double ours = 0.0, theirs = 0.0;  // squares of errors
    for (std::size_t i = 0; i < c.m; ++i) {
      for (std::size_t j = 0; j < c.n; ++j) {
        double sum = 0.0;
        float chain = 0.0F;
        for (std::size_t l = 0; l < k; ++l) {
          const float x = c.a_data[i * k + l], y = c.b_data[l * c.n + j];
          sum += double{x} * double{y};
          chain = std::fma(x, y, chain);
        }
        ours += std::pow(double{c.c_data[i * c.n + j]} - sum, 2);
        theirs += std::pow(double{chain} - sum, 2);
      }
    }
    EXPECT_LE(std::sqrt(ours), 1.05 * std::sqrt(theirs))
        << k;  // the library adds in the same order, or in several shorter chains
  }
}

TEST(MatmulF32, KeepsInfinityFromBeingFinite) {
  Case<float, float> c(40, 30, 20, {}, false, 0);
  c.a_data[7 * 20 + 3] = std::numeric_limits<float>::infinity();
  c.run();
  for (std::size_t j = 0; j < 30; ++j) {
    EXPECT_FALSE(std::isfinite(c.c_data[7 * 30 + j]));
    EXPECT_TRUE(std::isfinite(c.c_data[8 * 30 + j]));
  }
}

TEST(MatmulErrors, NamesThePlaceAndTheShapes) {
  const std::vector<float> a(12), b(20);
  std::vector<float> c(16);
  try {
    matmul<float, float>("qkv", {.a = {a.data(), 3, 4}, .b = {b.data(), 5, 4}}, {c.data(), 3, 4}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "qkv: a product of [3, 4] and [5, 4] into [3, 4]");
  }
}

TEST(MatmulErrors, RefusesAWorkspaceTooSmall) {
  // The library copies a transposed A.
  Case<float, float> c(512, 512, 512, {.a = Transpose::yes}, false, 0);
  ASSERT_GT((matmul_workspace_bytes<float, float>({.m = 512, .n = 512, .k = 512, .transpose_a = Transpose::yes})), 0U);
  c.workspace.clear();
  EXPECT_THROW(c.run(), Error);
}

// For matrices of any size: panels of 8 MiB for A with its results and for B, and the workspace of their product.
TEST(MatmulF16, WorkspaceIsBounded) {
  for (const Transpose a : transposes) {
    for (const Transpose b : transposes) {
      for (const std::size_t k : {64, 768, 3072, 16384}) {
        MatmulShape shape{.m = 8192, .n = 50304, .k = k, .transpose_a = a, .transpose_b = b, .bias = true};
        EXPECT_LE((matmul_workspace_bytes<f16, f16>(shape)), std::size_t{28} << 20U) << k;
        shape.added = true;
        EXPECT_LE((matmul_workspace_bytes<f16, float>(shape)), std::size_t{28} << 20U) << k;
      }
    }
  }
}

template <typename T>
class Widened : public testing::Test {};
using HalfTypes = testing::Types<bf16, f16>;
TYPED_TEST_SUITE(Widened, HalfTypes);

TYPED_TEST(Widened, IsTheProductOfTheWidenedMatricesRoundedOnce) {
  if (!is_widened(dtype_of<TypeParam>)) GTEST_SKIP() << "this processor multiplies bf16; tried without, too";
  Case<TypeParam, TypeParam> c(130, 200, 90, {}, true, 0);
  Case<float, float> wide(130, 200, 90, {}, true, 0);
  wide.a_data.assign(c.a_data.begin(), c.a_data.end());
  wide.b_data.assign(c.b_data.begin(), c.b_data.end());
  wide.bias.assign(c.bias.begin(), c.bias.end());
  c.run();
  wide.run();
  for (std::size_t i = 0; i < c.c_data.size(); ++i) ASSERT_EQ(c.c_data[i].bits, TypeParam(wide.c_data[i]).bits) << i;
}

TEST(MatmulF16, OverflowsToInfinity) {
  Case<f16, f16> c(3, 4, 50, {}, false, 0);
  for (f16& x : c.a_data) x = f16(200.0F);
  for (f16& x : c.b_data) x = f16(200.0F);
  c.run();
  for (const f16 x : c.c_data) EXPECT_TRUE(std::isinf(static_cast<float>(x)));
}

TEST(MatmulTrace, RecordsTheProduct) {
  trace::start(trace::Level::kernels, 16);
  Case<float, float> c(8, 8, 8, {}, false, 0);
  c.run();
  const std::vector<trace::Event> events = trace::drain();
  trace::stop();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(trace::names()[static_cast<std::size_t>(events[0].name)], "test");
  EXPECT_EQ(events[0].kind, static_cast<std::uint16_t>(trace::Kind::kernel));
  EXPECT_EQ(events[0].bytes, 3 * 64 * sizeof(float));
}

// ---- tiles -------------------------------------------------------------------------------------------------------------

TEST(Tiling, LetsCommunicationMoveAtLeastEvery20Milliseconds) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const std::size_t limit = type == DType::f32 ? 4'000'000'000 : 8'000'000'000;  // 20 ms at 200 and 400 GFLOP/s
    for (const std::size_t m : {1, 256, 2048, 8192, 50304}) {
      for (const std::size_t n : {1, 384, 768, 3072, 50304}) {
        for (const std::size_t k : {1, 64, 768, 2048, 50304}) {
          for (const Transpose a : transposes) {
            for (const Transpose b : transposes) {
              const ProductShape shape{m, n, k, a, b, type, DType::f32};
              const Tiling tiling = tiling_of(shape, 1);
              EXPECT_LE(2 * tiling.rows * tiling.columns * k * tiling.per_launch(shape, 1), limit)
                  << m << " x " << n << " x " << k;
              EXPECT_GE(tiling.rows * tiling.down(shape), m);
              EXPECT_LT(tiling.rows * (tiling.down(shape) - 1), m);
              EXPECT_GE(tiling.columns * tiling.across(shape), n);
              EXPECT_LT(tiling.columns * (tiling.across(shape) - 1), n);
            }
          }
        }
      }
    }
  }
}

TEST(Tiling, PumpsAfterEachLaunch) {
  static int pumped;
  pumped = 0;
  set_pump([] { ++pumped; });
  Case<float, float> c(2000, 1000, 1000, {}, false, 0);  // 4 GFLOP
  c.run();
  set_pump(nullptr);
  EXPECT_GE(pumped, 2);
}

}  // namespace shoal::kernels
