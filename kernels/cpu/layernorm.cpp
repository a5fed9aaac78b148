// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/layernorm.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/common/column_workspace.hpp"
#include "kernels/common/instances.hpp"
#include "kernels/cpu/vectors/chain_sums.hpp"
#include "kernels/cpu/vectors/loops.hpp"
#include "kernels/cpu/vectors/row_groups.hpp"
#include "kernels/cpu/vectors/simd.hpp"
#include "kernels/rules/layernorm.hpp"

namespace shoal::kernels {

using simd::Floats;
using simd::for_vectors;
using simd::load;
using simd::store;

namespace {

template <typename T>
SHOAL_INLINE void write_row(std::size_t C, const T* x, const T* gain, const T* bias, float mean, float rstd, T* y) {
  for_vectors(C, [=](std::size_t i, auto part) {
    store(y + i, rules::layernorm(load(x + i, part), mean, rstd, load(gain + i, part), load(bias + i, part)), part);
  });
}

/// Two passes over a row, which stays in the cache: the mean, then the squares of the differences from it.
template <typename T>
SHOAL_INLINE void statistics(std::size_t C, float epsilon, const T* x, float& mean, float& rstd) {
  ChainSums sum;
  for_vectors(C, [&](std::size_t i, auto part) { sum.at(i) += load(x + i, part); });
  const float middle = sum.total() / static_cast<float>(C);
  ChainSums squares;
  for_vectors(C, [&](std::size_t i, auto part) {
    Floats d = load(x + i, part) - middle;
    if constexpr (part.partial) d = simd::select(simd::first(part.lanes), d, Floats{});
    squares.at(i) = simd::fma(d, d, squares.at(i));
  });
  mean = middle;
  rstd = 1.0F / std::sqrt(squares.total() / static_cast<float>(C) + epsilon);
}

}  // namespace

template <typename T>
void layernorm_forward(RowShape shape, float epsilon, const LayerNormInputs<T>& in, const LayerNormOutputs<T>& out) {
  const std::size_t C = shape.C;
  for_rows("layernorm_forward", shape.rows, C, [=](std::size_t row) {
    const T* const x = in.x + row * C;
    statistics(C, epsilon, x, out.mean[row], out.rstd[row]);
    write_row(C, x, in.gain, in.bias, out.mean[row], out.rstd[row], out.y + row * C);
  });
}

template <typename T>
void layernorm_recompute(RowShape shape, const LayerNormInputs<T>& in, const LayerNormStatistics& saved, T* y) {
  const std::size_t C = shape.C;
  for_rows("layernorm_recompute", shape.rows, C, [=](std::size_t row) {
    write_row(C, in.x + row * C, in.gain, in.bias, saved.mean[row], saved.rstd[row], y + row * C);
  });
}

// With h = (x - mean) rstd:  dgain = sum dy h,  dbias = sum dy.
template <typename T>
void layernorm_backward(RowShape shape, const LayerNormBackwardInputs<T>& in, const LayerNormGradients<T>& out,
                        Span<std::byte> workspace) {
  const std::size_t rows = shape.rows, C = shape.C;
  float* const partials = partial_sums_in(workspace, layernorm_workspace_bytes(shape), "layernorm_backward", shape);
  parallel_for("layernorm_backward", row_groups(rows), [=](std::size_t group) {
    float* const partial_gain = partials + group * 2 * C;
    float* const partial_bias = partial_gain + C;
    std::fill_n(partial_gain, 2 * C, 0.0F);
    const Range range = rows_of_group(group, rows);
    for (std::size_t row = range.begin; row < range.end; ++row) {
      const std::size_t at = row * C;
      const float row_mean = in.mean[row];
      const float row_rstd = in.rstd[row];
      ChainSums sum;
      ChainSums product;
      for_vectors(C, [&](std::size_t i, auto part) {
        const Floats d = load(in.dy + at + i, part) * load(in.gain + i, part);
        sum.at(i) += d;
        product.at(i) = simd::fma(d, rules::normalized(load(in.x + at + i, part), row_mean, row_rstd), product.at(i));
      });
      const float mean_d = sum.total() / static_cast<float>(C);
      const float mean_dh = product.total() / static_cast<float>(C);
      for_vectors(C, [&](std::size_t i, auto part) {
        const Floats dy = load(in.dy + at + i, part);
        const Floats h = rules::normalized(load(in.x + at + i, part), row_mean, row_rstd);
        store(partial_gain + i, simd::fma(dy, h, load(partial_gain + i, part)), part);
        store(partial_bias + i, load(partial_bias + i, part) + dy, part);
        const Floats dx = rules::layernorm_slope(h, dy * load(in.gain + i, part), mean_d, mean_dh, row_rstd);
        store(out.dx + at + i, in.residual_gradient == nullptr ? dx : load(in.residual_gradient + at + i, part) + dx, part);
      });
    }
  });
  join_row_groups("layernorm_backward_gain", row_groups(rows), C, partials, 2 * C, out.dgain);
  join_row_groups("layernorm_backward_bias", row_groups(rows), C, partials + C, 2 * C, out.dbias);
}

SHOAL_FOR_TYPES(layernorm_backward);
SHOAL_FOR_TYPES(layernorm_forward);
SHOAL_FOR_TYPES(layernorm_recompute);

}  // namespace shoal::kernels
