// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/layernorm.hpp"

#include "kernels/common/column_workspace.hpp"
#include "kernels/common/instances.hpp"
#include "kernels/portable/column_sums.hpp"
#include "kernels/portable/launch.hpp"
#include "kernels/rules/layernorm.hpp"

namespace shoal::kernels {

using namespace portable;

template <typename T>
void layernorm_forward(RowShape shape, float epsilon, const LayerNormInputs<T>& in, const LayerNormOutputs<T>& out) {
  const std::size_t C = shape.C;
  for_teams(
      "layernorm_forward", shape.rows, 0, SHOAL_LAMBDA(std::size_t row, const Team& team) {
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
  for_teams(
      "layernorm_recompute", shape.rows, 0, SHOAL_LAMBDA(std::size_t row, const Team& team) {
        const T* const x = in.x + row * C;
        const float mean = saved.mean[row], rstd = saved.rstd[row];
        team.each(C, [&](std::size_t i) {
          y[row * C + i] = T(rules::layernorm<float>(x[i], mean, rstd, in.gain[i], in.bias[i]));
        });
      });
}

template <typename T>
void layernorm_backward(RowShape shape, const LayerNormBackwardInputs<T>& in, const LayerNormGradients<T>& out,
                        Span<std::byte> workspace) {
  const std::size_t rows = shape.rows, C = shape.C;
  float* const partials = partial_sums_in(workspace, layernorm_workspace_bytes(shape), "layernorm_backward", shape);
  for_teams(
      "layernorm_backward", row_groups(rows), 0, SHOAL_LAMBDA(std::size_t group, const Team& team) {
        const auto width = static_cast<float>(C);
        float* const partial_gain = partials + group * 2 * C;
        float* const partial_bias = partial_gain + C;
        team.each(2 * C, [&](std::size_t i) { partial_gain[i] = 0.0F; });
        const Range range = rows_of_group(group, rows);
        for (std::size_t row = range.begin; row < range.end; ++row) {
          const T *const x = in.x + row * C, *const dy = in.dy + row * C;
          const T* const residual = in.residual_gradient == nullptr ? nullptr : in.residual_gradient + row * C;
          const float mean = in.mean[row], rstd = in.rstd[row];
          const auto d = [&](std::size_t i) { return static_cast<float>(dy[i]) * static_cast<float>(in.gain[i]); };
          const float mean_d = team.sum(C, [&](std::size_t i, float& sum) { sum += d(i); }) / width;
          const float mean_dh = team.sum(C, [&](std::size_t i, float& sum) {
            sum = rules::Number<float>::fma(d(i), rules::normalized<float>(x[i], mean, rstd), sum);
          }) / width;
          // The same thread adds to a column in every row: the loops over columns need not wait for one another.
          team.each(C, [&](std::size_t i) {
            const float h = rules::normalized<float>(x[i], mean, rstd), slope = dy[i];
            partial_gain[i] = rules::Number<float>::fma(slope, h, partial_gain[i]);
            partial_bias[i] += slope;
            const float dx = rules::layernorm_slope(h, d(i), mean_d, mean_dh, rstd);
            out.dx[row * C + i] = T(residual == nullptr ? dx : static_cast<float>(residual[i]) + dx);
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
