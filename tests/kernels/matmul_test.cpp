// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/matmul.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/matmul_case.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels {

template <typename T>
class Matmul : public testing::Test {};
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
  const std::size_t m = 600, n = 700, k = 20001;
  for (const Options& options : {Options{}, Options{.b = Transpose::yes}, Options{.a = Transpose::yes}}) {
    Case<T, R>(m, n, k, options, true, 0).check_rows({0, m / 2, m - 1});
  }
}

// For our own kernels: several blocks of rows, A packed more than once, sums of one KC and of several, edges within a
// micro-panel. The library computes the same products.
TYPED_TEST(Matmul, OfManyBlocksIsTheDefinition) {
  using T = typename TypeParam::Operand;
  using R = typename TypeParam::Result;
  const std::array<std::array<std::size_t, 3>, 7> sizes = {{{500, 2100, 1100},
                                                            {402, 97, 385},
                                                            {390, 130, 384},
                                                            {33, 49, 129},
                                                            {1000, 40, 3000},
                                                            {95, 70, 9000},
                                                            {1001, 1400, 2000}}};
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

// The result is the same as if C had held the other matrix (on a GPU nearly so): for products by our kernels, in blocks and
// tiles, in whole cache lines and parts of them, and by the library.
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
        const reference::Product expected = reference::matmul(into.inputs(), into.c());
        std::fill(beside.c_data.begin(), beside.c_data.end(), R(std::nanf("")));
        into.run();
        beside.run_with(added.data());
        if (device::kind() != device::DeviceKind::cuda) {
          ASSERT_EQ(std::memcmp(into.c_data.data(), beside.c_data.data(), m * n * sizeof(R)), 0);
          continue;
        }
        // cuBLASLt may round in other places when it adds another matrix than C.
        for (std::size_t i = 0; i < m * n; ++i) {
          ASSERT_NEAR(static_cast<double>(beside.c_data[i]), expected.value[i],
                      beside.tolerance(expected.value[i], expected.magnitude[i], beside.terms(i % n, added[i])));
        }
      }
    }
  }
}

// Sums of one part, of several, and so long that the kernels for AVX2 pack both operands part by part.
TYPED_TEST(Matmul, DoesNotDependOnThreads) {
  using T = typename TypeParam::Operand;
  using R = typename TypeParam::Result;
  const std::array<std::array<std::size_t, 3>, 3> sizes = {{{900, 260, 130}, {400, 130, 1100}, {200, 100, 4300}}};
  for (const auto& [m, n, k] : sizes) {
    for (const Transpose a : transposes) {
      for (const Transpose b : transposes) {
        Case<T, R> one(m, n, k, {a, b, false}, false, 0);
        one.run();
        for (const int threads : {2, 3}) {
          const WithThreads with(threads);
          Case<T, R> several(m, n, k, {a, b, false}, false, 0);
          several.run();
          ASSERT_EQ(std::memcmp(one.c_data.data(), several.c_data.data(), one.c_data.size() * sizeof(R)), 0)
              << threads << " threads, k = " << k;
        }
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

// What pads the last row, column and element of the sum is zero, and does not meet those of another row or column.
TYPED_TEST(Matmul, KeepsNaNAtTheEdge) {
  using T = typename TypeParam::Operand;
  const std::array<std::array<std::size_t, 3>, 2> sizes = {{{7, 17, 9}, {19, 35, 33}}};
  for (const auto& [m, n, k] : sizes) {
    for (const Transpose a : transposes) {
      for (const Transpose b : transposes) {
        Case<T, typename TypeParam::Result> c(m, n, k, {a, b, false}, false, 0);
        c.a_data.back() = T(std::nanf(""));  // the last of the sum, in the last row of C
        c.b_data.back() = T(std::nanf(""));  // and in its last column
        c.run();
        for (std::size_t i = 0; i < m; ++i) {
          for (std::size_t j = 0; j < n; ++j) {
            EXPECT_EQ(std::isnan(static_cast<float>(c.c_data[i * n + j])), i == m - 1 || j == n - 1) << i << ", " << j;
          }
        }
      }
    }
  }
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

TEST(MatmulF16, IsTheProductOfTheWidenedMatricesRoundedOnce) { expect_product_of_widened_matrices<f16>(); }

TEST(MatmulF16, OverflowsToInfinity) {
  Case<f16, f16> c(3, 4, 50, {}, false, 0);
  for (f16& x : c.a_data) x = f16(200.0F);
  for (f16& x : c.b_data) x = f16(200.0F);
  c.run();
  for (const f16 x : c.c_data) EXPECT_TRUE(std::isinf(static_cast<float>(x)));
}

TEST(MatmulTrace, RecordsTheProduct) {
  connect_trace();
  trace::start(trace::Level::kernels, 16);
  Case<float, float> c(8, 8, 8, {}, false, 0);
  c.run();
  const std::vector<trace::Event> events = trace::drain();
  trace::stop();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(trace::names()[static_cast<std::size_t>(events[0].name)], "test");
  EXPECT_EQ(events[0].kind, static_cast<std::uint16_t>(trace::Kind::kernel));
}

TEST(MatmulLaunches, LetCommunicationMove) {
  static int pumped;
  pumped = 0;
  set_pump([] { ++pumped; });
  const auto rows = 2000 * static_cast<std::size_t>(threads());
  Case<float, float> c(rows, 1000, 1000, {}, false, 0);  // 4 GFLOP for each thread
  c.run();
  set_pump(nullptr);
  EXPECT_GE(pumped, 2);
}

}  // namespace shoal::kernels
