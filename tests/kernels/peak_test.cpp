// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/peak.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "kernels/cpu/vectors/instructions.hpp"
#include "kernels/runtime_environment.hpp"
#include "shoal/base/names.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

namespace of_peak_test {

/// GFLOP/s of a square product on all threads(), in wall-clock time: the best of several calls.
template <typename T>
double product_gflops(std::size_t size) {
  const std::vector<T> a(size * size, T(0.5F)), b(size * size, T(0.25F));
  std::vector<T> c(size * size);
  std::vector<std::byte> workspace(matmul_workspace_bytes<T, T>({.m = size, .n = size, .k = size}));
  double best = 0;
  for (int call = 0; call < 6; ++call) {
    const auto begin = std::chrono::steady_clock::now();
    matmul<T, T>("product", {.a = {a.data(), size, size}, .b = {b.data(), size, size}}, {c.data(), size, size}, workspace);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, 2e-9 * static_cast<double>(size * size * size) / seconds);
  }
  return best;
}

// There are several attempts, since a core's clock may rise between the two measurements, and other programs may take part
// of the cores from each of them. The peak is the largest of all.
template <typename T>
void expect_no_product_above_the_peak() {
  double product = 0, peak = 0;
  for (int attempt = 0; attempt < 30 && product >= peak; ++attempt) {
    product = product_gflops<T>(768);
    peak = std::max(peak, measured_peak_gflops(dtype_of<T>));
  }
  EXPECT_LT(product, peak) << name_of(dtype_of<T>);
}

TEST(Peak, NoProductIsFaster) {
  for (const int threads : {1, 2}) {
    const WithThreads with(threads);
    expect_no_product_above_the_peak<float>();
    expect_no_product_above_the_peak<bf16>();
    expect_no_product_above_the_peak<f16>();
  }
}

// Other programs on the machine may disturb a measurement, so one of several attempts must succeed.
TEST(Peak, OfTwoThreadsIsAboutTwice) {
  bool agrees = false;
  for (int attempt = 0; attempt < 10 && !agrees; ++attempt) {
    const double one = measured_gflops(Arithmetic::multiply_add);
    const WithThreads with(2);
    const double two = measured_gflops(Arithmetic::multiply_add);
    agrees = two > 0.8 * one && two < 2.6 * one;  // 0.8: the threads may use the units of the same core
  }
  EXPECT_TRUE(agrees);
}

TEST(Peak, IsMeasured) { EXPECT_GT(measured_gflops(Arithmetic::multiply_add), 0); }

}  // namespace of_peak_test
}  // namespace shoal::kernels
