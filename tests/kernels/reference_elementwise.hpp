// SPDX-License-Identifier: Apache-2.0
// References for the elementwise kernels, norms and losses: plain loops in double, written from the formulas.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal::kernels::reference {

using Vector = std::vector<double>;

inline double gelu(double u) { return 0.5 * u * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (u + 0.044715 * u * u * u))); }

inline double gelu_slope(double u) {
  const double c = std::sqrt(2.0 / M_PI);
  const double t = std::tanh(c * (u + 0.044715 * u * u * u));
  return 0.5 * (1.0 + t) + 0.5 * u * (1.0 - t * t) * c * (1.0 + 3.0 * 0.044715 * u * u);
}

inline Vector column_sum(std::size_t rows, std::size_t C, const Vector& x) {
  Vector sums(C);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < C; ++c) sums[c] += x[r * C + c];
  }
  return sums;
}

struct LayerNorm {
  Vector y, mean, rstd;
};
inline LayerNorm layernorm(std::size_t rows, std::size_t C, double epsilon, const Vector& x, const Vector& gain,
                           const Vector& bias) {
  LayerNorm out{Vector(rows * C), Vector(rows), Vector(rows)};
  for (std::size_t r = 0; r < rows; ++r) {
    double mean = 0;
    for (std::size_t c = 0; c < C; ++c) mean += x[r * C + c] / static_cast<double>(C);
    double variance = 0;
    for (std::size_t c = 0; c < C; ++c) variance += std::pow(x[r * C + c] - mean, 2) / static_cast<double>(C);
    const double rstd = 1.0 / std::sqrt(variance + epsilon);
    for (std::size_t c = 0; c < C; ++c) out.y[r * C + c] = (x[r * C + c] - mean) * rstd * gain[c] + bias[c];
    out.mean[r] = mean;
    out.rstd[r] = rstd;
  }
  return out;
}

struct LayerNormGradient {
  Vector dx, dgain, dbias;
};
inline LayerNormGradient layernorm_backward(std::size_t rows, std::size_t C, const Vector& x, const Vector& gain,
                                            const LayerNorm& forward, const Vector& dy) {
  LayerNormGradient out{Vector(rows * C), Vector(C), Vector(C)};
  for (std::size_t r = 0; r < rows; ++r) {
    double mean_d = 0, mean_dh = 0;
    for (std::size_t c = 0; c < C; ++c) {
      const double h = (x[r * C + c] - forward.mean[r]) * forward.rstd[r];
      const double d = dy[r * C + c] * gain[c];
      mean_d += d / static_cast<double>(C);
      mean_dh += d * h / static_cast<double>(C);
      out.dgain[c] += dy[r * C + c] * h;
      out.dbias[c] += dy[r * C + c];
    }
    for (std::size_t c = 0; c < C; ++c) {
      const double h = (x[r * C + c] - forward.mean[r]) * forward.rstd[r];
      out.dx[r * C + c] = forward.rstd[r] * (dy[r * C + c] * gain[c] - mean_d - h * mean_dh);
    }
  }
  return out;
}

inline double cross_entropy(std::size_t V, const double* logits, std::int32_t target) {
  const double largest = *std::max_element(logits, logits + V);
  double sum = 0;
  for (std::size_t v = 0; v < V; ++v) sum += std::exp(logits[v] - largest);
  return std::log(sum) + largest - logits[target];
}

/// Derivative of f by x[i], by central differences. The error is about 1e-9 for functions of this size.
template <class Function>
double slope_of(const Function& f, Vector x, std::size_t i) {
  constexpr double h = 1e-5;
  const double at = x[i];
  x[i] = at + h;
  const double above = f(x);
  x[i] = at - h;
  return (above - f(x)) / (2 * h);
}

}  // namespace shoal::kernels::reference
