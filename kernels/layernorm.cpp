// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/layernorm.hpp"

#include <algorithm>
#include <cmath>

#include "row_groups.hpp"
#include "shoal/base/error.hpp"
#include "simd.hpp"
#include "tiles.hpp"

namespace shoal::kernels {

using simd::broadcast;
using simd::Floats;
using simd::for_vectors;
using simd::load;
using simd::store;

namespace {

/// Four running sums, so that additions need not wait for one another. The order of a sum depends on its length alone.
struct Sums {
  Floats parts[4] = {};
  SHOAL_INLINE Floats& at(std::size_t i) { return parts[i / simd::width % 4]; }
  SHOAL_INLINE float total() const { return simd::sum((parts[0] + parts[1]) + (parts[2] + parts[3])); }
};

SHOAL_INLINE Floats normalized(Floats x, float mean, float rstd) { return (x - mean) * rstd; }

template <typename T>
SHOAL_INLINE void write_row(std::size_t C, const T* x, const T* gain, const T* bias, float mean, float rstd, T* y) {
  for_vectors(C, [=](std::size_t i, auto part) {
    store(y + i, simd::fma(normalized(load(x + i, part), mean, rstd), load(gain + i, part), load(bias + i, part)), part);
  });
}

/// Two passes over a row that is in the cache: the mean, then the squares of what is left of it.
template <typename T>
SHOAL_INLINE void statistics(std::size_t C, float epsilon, const T* x, float& mean, float& rstd) {
  Sums sum;
  for_vectors(C, [&](std::size_t i, auto part) { sum.at(i) += load(x + i, part); });
  const float middle = sum.total() / static_cast<float>(C);
  Sums squares;
  for_vectors(C, [&](std::size_t i, auto part) {
    Floats d = load(x + i, part) - middle;
    if constexpr (part.partial) d = simd::first(part.lanes) ? d : Floats{};
    squares.at(i) = simd::fma(d, d, squares.at(i));
  });
  mean = middle;
  rstd = 1.0F / std::sqrt(squares.total() / static_cast<float>(C) + epsilon);
}

}  // namespace

template <typename T>
void layernorm_forward(std::size_t rows, std::size_t C, float epsilon, const T* x, const T* gain, const T* bias, T* y,
                       float* mean, float* rstd) {
  for_rows("layernorm_forward", rows, C, [=](std::size_t row) {
    statistics(C, epsilon, x + row * C, mean[row], rstd[row]);
    write_row(C, x + row * C, gain, bias, mean[row], rstd[row], y + row * C);
  });
}

template <typename T>
void layernorm_recompute(std::size_t rows, std::size_t C, const T* x, const T* gain, const T* bias, const float* mean,
                         const float* rstd, T* y) {
  for_rows("layernorm_recompute", rows, C,
           [=](std::size_t row) { write_row(C, x + row * C, gain, bias, mean[row], rstd[row], y + row * C); });
}

// With h = (x - mean) rstd and d = dy gain:  dx = rstd (d - mean(d) - h mean(d h)),  dgain = sum dy h,  dbias = sum dy.
template <typename T>
void layernorm_backward(std::size_t rows, std::size_t C, const T* x, const T* gain, const float* mean, const float* rstd,
                        const T* dy, const T* residual_gradient, T* dx, float* dgain, float* dbias,
                        Span<std::byte> workspace) {
  require(workspace.size() >= layernorm_workspace_bytes(rows, C), "layernorm_backward: a workspace of ", workspace.size(),
          " bytes for ", rows, " x ", C);
  auto* const partials = reinterpret_cast<float*>(workspace.data());
  for_tiles("layernorm_backward", row_groups(rows), [=](std::size_t group) {
    float* const partial_gain = partials + group * 2 * C;
    float* const partial_bias = partial_gain + C;
    std::fill_n(partial_gain, 2 * C, 0.0F);
    const Range range = rows_of_group(group, rows);
    for (std::size_t row = range.begin; row < range.end; ++row) {
      const std::size_t at = row * C;
      const float row_mean = mean[row];
      const float row_rstd = rstd[row];
      Sums sum;
      Sums product;
      for_vectors(C, [&](std::size_t i, auto part) {
        const Floats d = load(dy + at + i, part) * load(gain + i, part);
        sum.at(i) += d;
        product.at(i) = simd::fma(d, normalized(load(x + at + i, part), row_mean, row_rstd), product.at(i));
      });
      const float middle = sum.total() / static_cast<float>(C);
      const Floats along = broadcast(-product.total() / static_cast<float>(C));
      for_vectors(C, [&](std::size_t i, auto part) {
        const Floats gradient = load(dy + at + i, part);
        const Floats h = normalized(load(x + at + i, part), row_mean, row_rstd);
        store(partial_gain + i, simd::fma(gradient, h, load(partial_gain + i, part)), part);
        store(partial_bias + i, load(partial_bias + i, part) + gradient, part);
        const Floats through = simd::fma(h, along, gradient * load(gain + i, part) - middle) * row_rstd;
        store(dx + at + i, residual_gradient == nullptr ? through : load(residual_gradient + at + i, part) + through, part);
      });
    }
  });
  join_row_groups("layernorm_backward_gain", row_groups(rows), C, partials, 2 * C, dgain);
  join_row_groups("layernorm_backward_bias", row_groups(rows), C, partials + C, 2 * C, dbias);
}

std::size_t layernorm_workspace_bytes(std::size_t rows, std::size_t C) { return row_groups(rows) * 2 * C * sizeof(float); }

template void layernorm_forward<float>(std::size_t, std::size_t, float, const float*, const float*, const float*, float*,
                                       float*, float*);
template void layernorm_forward<bf16>(std::size_t, std::size_t, float, const bf16*, const bf16*, const bf16*, bf16*, float*,
                                      float*);
template void layernorm_forward<f16>(std::size_t, std::size_t, float, const f16*, const f16*, const f16*, f16*, float*,
                                     float*);
template void layernorm_recompute<float>(std::size_t, std::size_t, const float*, const float*, const float*, const float*,
                                         const float*, float*);
template void layernorm_recompute<bf16>(std::size_t, std::size_t, const bf16*, const bf16*, const bf16*, const float*,
                                        const float*, bf16*);
template void layernorm_recompute<f16>(std::size_t, std::size_t, const f16*, const f16*, const f16*, const float*,
                                       const float*, f16*);
template void layernorm_backward<float>(std::size_t, std::size_t, const float*, const float*, const float*, const float*,
                                        const float*, const float*, float*, float*, float*, Span<std::byte>);
template void layernorm_backward<bf16>(std::size_t, std::size_t, const bf16*, const bf16*, const float*, const float*,
                                       const bf16*, const bf16*, bf16*, float*, float*, Span<std::byte>);
template void layernorm_backward<f16>(std::size_t, std::size_t, const f16*, const f16*, const float*, const float*,
                                      const f16*, const f16*, f16*, float*, float*, Span<std::byte>);

}  // namespace shoal::kernels
