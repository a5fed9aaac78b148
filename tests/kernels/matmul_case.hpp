// SPDX-License-Identifier: Apache-2.0
// Products that tests compute, compared with the definition.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include "kernels/reference.hpp"
#include "kernels/roundoff.hpp"
#include "kernels/runtime_environment.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/kernels/matmul.hpp"
#include "shoal/kernels/products.hpp"

namespace shoal::kernels {

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

/// Whether each Case chooses an algorithm for its product, if this program has algorithms to choose from (products.hpp).
inline bool cases_choose = true;

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
        workspace(matmul_workspace_bytes<T, R>(shape())) {
    if (cases_choose) choose_missing_algorithms({product<T, R>(shape())});
  }

  MatmulShape shape() const {
    return {.m = m,
            .n = n,
            .k = k,
            .transpose_a = options.a,
            .transpose_b = options.b,
            .bias = with_bias,
            .added = options.accumulate,
            .a_stride = a().stride,
            .b_stride = b().stride,
            .c_stride = n + gap};
  }

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
  /// add up to sqrt(k) of them. Then the result is rounded. cuBLASLt may round to the result's type before it adds the bias
  /// and before it adds the other matrix, too: `terms` are their magnitudes, which bound that of what it rounds then.
  double tolerance(double value, double magnitude, double terms) const {
    const int between = device::kind() == device::DeviceKind::cuda ? (with_bias ? 1 : 0) + (options.accumulate ? 1 : 0) : 0;
    return (std::sqrt(static_cast<double>(k)) + 2.0) * 0x1p-24 * magnitude + subnormal_roundoff<R> * (1 + between) +
           roundoff<R> * (std::abs(value) + between * (std::abs(value) + terms)) * 1.01;
  }
  /// The magnitudes of what is added to the product in column j; `held`: what C held there.
  double terms(std::size_t j, R held) const {
    return (with_bias ? std::abs(static_cast<double>(bias[j])) : 0.0) +
           (options.accumulate ? std::abs(static_cast<double>(held)) : 0.0);
  }

  void check() {
    const reference::Product expected = reference::matmul(inputs(), c());
    const Lines<R> before = c_data;
    run();
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const double value = expected.value[i * n + j];
        ASSERT_NEAR(static_cast<double>(c_data[i * (n + gap) + j]), value,
                    tolerance(value, expected.magnitude[i * n + j], terms(j, before[i * (n + gap) + j])))
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
                    tolerance(expected.value[j], expected.magnitude[j], terms(j, before[row * (n + gap) + j])))
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

inline constexpr std::array transposes = {Transpose::no, Transpose::yes};

using AllTypes =
    testing::Types<Types<float, float>, Types<bf16, bf16>, Types<bf16, float>, Types<f16, f16>, Types<f16, float>>;

/// Expects each element of such products to be one chain of fused multiply-adds of floats, plus the bias, plus what C held.
template <typename T, typename R>
void expect_chains_of_multiply_adds(std::size_t m, std::size_t n, std::size_t k) {
  for (const Transpose a : transposes) {
    for (const Transpose b : transposes) {
      Case<T, R> c(m, n, k, {a, b, true}, true, 1);
      const Lines<R> before = c.c_data;
      c.run();
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          float sum = 0.0F;
          for (std::size_t l = 0; l < k; ++l) {
            const float x = c.a_data[a == Transpose::yes ? l * c.a().stride + i : i * c.a().stride + l];
            const float y = c.b_data[b == Transpose::yes ? j * c.b().stride + l : l * c.b().stride + j];
            sum = std::fma(x, y, sum);
          }
          const std::size_t at = i * c.c().stride + j;
          const R expected(sum + static_cast<float>(c.bias[j]) + static_cast<float>(before[at]));
          ASSERT_EQ(std::memcmp(&c.c_data[at], &expected, sizeof expected), 0) << i << ", " << j << ", k = " << k;
        }
      }
    }
  }
}

/// Expects the same bits as if A, B and the bias were converted to float, and the float product were rounded.
template <typename T>
void expect_product_of_widened_matrices() {
  Case<T, T> c(130, 200, 90, {}, true, 0);
  Case<float, float> wide(130, 200, 90, {}, true, 0);
  wide.a_data.assign(c.a_data.begin(), c.a_data.end());
  wide.b_data.assign(c.b_data.begin(), c.b_data.end());
  wide.bias.assign(c.bias.begin(), c.bias.end());
  c.run();
  wide.run();
  for (std::size_t i = 0; i < c.c_data.size(); ++i) ASSERT_EQ(c.c_data[i].bits, T(wide.c_data[i]).bits) << i;
}

}  // namespace shoal::kernels
