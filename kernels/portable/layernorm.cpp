// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/layernorm.hpp"

#include "../column_workspace.hpp"
#include "../rules/layernorm.hpp"
#include "column_sums.hpp"
#include "launch.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

struct NormalizedAndSlope {
  float normalized, slope;
};

}  // namespace

template <typename T>
void layernorm_forward(RowShape shape, float epsilon, const LayerNormInputs<T>& in, const LayerNormOutputs<T>& out) {
  const std::size_t C = shape.C;
  for_rows(
      "layernorm_forward", shape.rows, SHOAL_LAMBDA(std::size_t row, const RowTeam& team) {
        const T* const x = in.x + row * C;
        T* const y = out.y + row * C;
        const auto width = static_cast<float>(C);
        const float mean = team.sum(C, [&](std::size_t i, float& sum) { sum += static_cast<float>(x[i]); }) / width;
        const float squares = team.sum(C, [&](std::size_t i, float& sum) {
          const float d = static_cast<float>(x[i]) - mean;
          sum = rules::Number<float>::fma(d, d, sum);
        });
        const float rstd = 1.0F / rules::Number<float>::sqrt(squares / width + epsilon);
        team.each(C, [&](std::size_t i) { y[i] = T(rules::layernorm<float>(x[i], mean, rstd, in.gain[i], in.bias[i])); });
        if (team.thread() == 0) {
          out.mean[row] = mean;
          out.rstd[row] = rstd;
        }
      });
}

template <typename T>
void layernorm_recompute(RowShape shape, const LayerNormInputs<T>& in, const LayerNormStatistics& saved, T* y) {
  const std::size_t C = shape.C;
  for_rows(
      "layernorm_recompute", shape.rows, SHOAL_LAMBDA(std::size_t row, const RowTeam& team) {
        const T* const x = in.x + row * C;
        const float mean = saved.mean[row], rstd = saved.rstd[row];
        team.each(C, [&](std::size_t i) {
          y[row * C + i] = T(rules::layernorm<float>(x[i], mean, rstd, in.gain[i], in.bias[i]));
        });
      });
}

namespace {

/// The gradients of gain and bias. What is read again is mostly in a cache.
template <typename T>
void layernorm_sums(RowShape shape, const LayerNormBackwardInputs<T>& in, const LayerNormGradients<T>& out,
                    float* partials) {
  const std::size_t C = shape.C, groups = row_groups(shape.rows);
  const T *const x = in.x, *const dy = in.dy;
  const float *const mean = in.mean, *const rstd = in.rstd;
  sum_columns(
      "layernorm_backward_gain", shape, rows_per_group, partials, 2 * C,
      SHOAL_LAMBDA(std::size_t row, std::size_t column) {
        const std::size_t i = row * C + column;
        return NormalizedAndSlope{rules::normalized<float>(x[i], mean[row], rstd[row]), static_cast<float>(dy[i])};
      },
      SHOAL_LAMBDA(std::size_t, std::size_t, const NormalizedAndSlope& of, float& sum) {
        sum = rules::Number<float>::fma(of.slope, of.normalized, sum);
      });
  sum_columns(
      "layernorm_backward_bias", shape, rows_per_group, partials + C, 2 * C,
      SHOAL_LAMBDA(std::size_t row, std::size_t column) { return static_cast<float>(dy[row * C + column]); },
      SHOAL_LAMBDA(std::size_t, std::size_t, float slope, float& sum) { sum += slope; });
  join_row_groups("join_row_groups", groups, C, partials, 2 * C, out.dgain);
  join_row_groups("join_row_groups", groups, C, partials + C, 2 * C, out.dbias);
}

}  // namespace

template <typename T>
void layernorm_backward(RowShape shape, const LayerNormBackwardInputs<T>& in, const LayerNormGradients<T>& out,
                        Span<std::byte> workspace) {
  const std::size_t rows = shape.rows, C = shape.C;
  float* const partials = partial_sums_in(workspace, layernorm_workspace_bytes(shape), "layernorm_backward", shape);
  layernorm_sums(shape, in, out, partials);  // before dx, which may be written over dy
  for_rows(
      "layernorm_backward", rows, SHOAL_LAMBDA(std::size_t row, const RowTeam& team) {
        const auto width = static_cast<float>(C);
        const T *const x = in.x + row * C, *const dy = in.dy + row * C;
        const T* const residual = in.residual_gradient == nullptr ? nullptr : in.residual_gradient + row * C;
        const float mean = in.mean[row], rstd = in.rstd[row];
        const auto d = [&](std::size_t i) { return static_cast<float>(dy[i]) * static_cast<float>(in.gain[i]); };
        const float mean_d = team.sum(C, [&](std::size_t i, float& sum) { sum += d(i); }) / width;
        const float mean_dh = team.sum(C, [&](std::size_t i, float& sum) {
          sum = rules::Number<float>::fma(d(i), rules::normalized<float>(x[i], mean, rstd), sum);
        }) / width;
        team.each(C, [&](std::size_t i) {
          const float h = rules::normalized<float>(x[i], mean, rstd);
          const float dx = rules::layernorm_slope(h, d(i), mean_d, mean_dh, rstd);
          out.dx[row * C + i] = T(residual == nullptr ? dx : static_cast<float>(residual[i]) + dx);
        });
      });
}

}  // namespace shoal::kernels

#include "../instances/layernorm_backward.hpp"
#include "../instances/layernorm_forward.hpp"
