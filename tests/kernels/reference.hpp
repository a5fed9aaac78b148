// SPDX-License-Identifier: Apache-2.0
// Matrix products and attention by their definitions, in double precision, and operands for them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "shoal/base/philox.hpp"
#include "shoal/base/types.hpp"
#include "shoal/kernels/attention.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels::reference {

/// Uniform random numbers in -1 .. 1, rounded to T, which are the same for the same key. They are repeated after a prime
/// number of them: so large matrices cost little, and no two rows of a matrix are the same.
template <typename T>
std::vector<T> numbers(std::size_t count, std::uint64_t key) {
  constexpr std::size_t period = 65537;
  std::vector<T> values(count);
  for (std::size_t i = 0; i < std::min(count, period); ++i) {
    values[i] = T(2.0F * uniform(philox(key, {static_cast<std::uint32_t>(i), 0, 0, 0})[0]) - 1.0F);
  }
  for (std::size_t i = period; i < count; i += period) {
    std::copy_n(values.data(), std::min(period, count - i), values.data() + i);
  }
  return values;
}

struct Product {
  std::vector<double> value;
  std::vector<double> magnitude;  ///< the same sums over absolute values, which bound the error
};

/// Reads B in the order in which memory holds it. The terms of each element of C are added in the order of the definition.
template <typename T, typename R>
Product matmul(const MatmulInputs<T, R>& in, const Matrix<R>& c) {
  const Matrix<const T>&a = in.a, &b = in.b;
  const std::size_t m = c.rows, n = c.columns, k = in.transpose_a == Transpose::yes ? a.rows : a.columns;
  Product product{std::vector<double>(m * n), std::vector<double>(m * n)};
  std::vector<double> row(k);
  for (std::size_t i = 0; i < m; ++i) {
    double* const sums = product.value.data() + i * n;
    double* const magnitudes = product.magnitude.data() + i * n;
    const auto add = [&](std::size_t j, double term) {
      sums[j] += term;
      magnitudes[j] += std::abs(term);
    };
    for (std::size_t l = 0; l < k; ++l) {
      row[l] = static_cast<double>(in.transpose_a == Transpose::yes ? a.data[l * a.stride + i] : a.data[i * a.stride + l]);
    }
    for (std::size_t j = 0; in.bias != nullptr && j < n; ++j) add(j, static_cast<double>(in.bias[j]));
    if (in.transpose_b == Transpose::yes) {
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t l = 0; l < k; ++l) add(j, row[l] * static_cast<double>(b.data[j * b.stride + l]));
      }
    } else {
      for (std::size_t l = 0; l < k; ++l) {
        for (std::size_t j = 0; j < n; ++j) add(j, row[l] * static_cast<double>(b.data[l * b.stride + j]));
      }
    }
    for (std::size_t j = 0; in.added != nullptr && j < n; ++j) add(j, static_cast<double>(in.added[i * c.stride + j]));
  }
  return product;
}

struct Attention {
  std::vector<double> out, logsumexp, dqkv;
};

/// Forward, and backward for dout.
template <typename T>
Attention attention(const AttentionShape& s, const T* qkv, const double* dout, const Dropout& dropout) {
  const std::size_t HS = s.C / s.NH;
  const double scale = 1.0 / std::sqrt(static_cast<double>(HS));
  Attention result{std::vector<double>(s.B * s.T * s.C), std::vector<double>(s.B * s.NH * s.T),
                   std::vector<double>(s.B * s.T * 3 * s.C)};
  for (std::size_t b = 0; b < s.B; ++b) {
    for (std::size_t h = 0; h < s.NH; ++h) {
      const auto at = [&](std::size_t t, std::size_t part) { return (b * s.T + t) * 3 * s.C + part * s.C + h * HS; };
      for (std::size_t t = 0; t < s.T; ++t) {
        std::vector<double> score(t + 1), keep(t + 1, 1.0);
        double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
        for (std::size_t u = 0; u <= t; ++u) {
          for (std::size_t c = 0; c < HS; ++c)
            score[u] += static_cast<double>(qkv[at(t, 0) + c]) * static_cast<double>(qkv[at(u, 1) + c]);
          score[u] *= scale;
          largest = std::max(largest, score[u]);
          if (dropout.active()) {
            const std::uint64_t element = (h * s.T + t) * s.T + u;
            const bool kept = dropout_keep(dropout, dropout.first_sample + static_cast<std::uint32_t>(b), element);
            keep[u] = kept ? 1.0 / (1.0 - static_cast<double>(dropout.probability)) : 0.0;
          }
        }
        for (const double x : score) sum += std::exp(x - largest);
        result.logsumexp[(b * s.NH + h) * s.T + t] = largest + std::log(sum);
        const std::size_t row = (b * s.T + t) * s.C + h * HS;
        std::vector<double> p(t + 1), dp(t + 1);
        double mean = 0.0;
        for (std::size_t u = 0; u <= t; ++u) {
          p[u] = std::exp(score[u] - largest) / sum;
          for (std::size_t c = 0; c < HS; ++c) {
            const auto v = static_cast<double>(qkv[at(u, 2) + c]);
            result.out[row + c] += p[u] * keep[u] * v;
            dp[u] += keep[u] * dout[row + c] * v;
            result.dqkv[at(u, 2) + c] += p[u] * keep[u] * dout[row + c];
          }
          mean += p[u] * dp[u];
        }
        for (std::size_t u = 0; u <= t; ++u) {
          const double ds = p[u] * (dp[u] - mean) * scale;
          for (std::size_t c = 0; c < HS; ++c) {
            result.dqkv[at(t, 0) + c] += ds * static_cast<double>(qkv[at(u, 1) + c]);
            result.dqkv[at(u, 1) + c] += ds * static_cast<double>(qkv[at(t, 0) + c]);
          }
        }
      }
    }
  }
  return result;
}

}  // namespace shoal::kernels::reference
