// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/cross_entropy.hpp"

#include <limits>

#include "kernels/common/instances.hpp"
#include "kernels/portable/launch.hpp"
#include "kernels/rules/functions.hpp"
#include "kernels/rules/softmax.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

/// Reads the row twice. If there is a NaN the sum is NaN, whether or not the maximum is.
SHOAL_FUNCTION rules::Normalizer normalizer(const Team& team, std::size_t V, const float* x) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  const float largest = team.max(V, lowest, [&](std::size_t i) { return x[i]; });
  return {largest, team.sum(V, [&](std::size_t i, float& sum) { sum += rules::exp(x[i] - largest); })};
}

/// -ln softmax(x)[target].
SHOAL_FUNCTION float loss_of(const rules::Normalizer& row, float target_logit) {
  return rules::log(row.sum) + (row.largest - target_logit);
}

}  // namespace

void cross_entropy_forward(RowShape shape, const CrossEntropyInputs& in, float* losses) {
  const std::size_t V = shape.C;
  for_teams(
      "cross_entropy_forward", shape.rows, 0, SHOAL_LAMBDA(std::size_t row, const Team& team) {
        const float* const x = in.logits + row * in.stride;
        const rules::Normalizer norm = normalizer(team, V, x);
        if (team.thread() == 0) losses[row] = loss_of(norm, x[in.targets[row]]);
      });
}

template <typename T>
void cross_entropy(RowShape shape, const CrossEntropyInputs& in, float scale, const CrossEntropyOutputs<T>& out) {
  const std::size_t V = shape.C;
  for_teams(
      "cross_entropy", shape.rows, 0, SHOAL_LAMBDA(std::size_t row, const Team& team) {
        const float* const x = in.logits + row * in.stride;
        T* const dx = out.dlogits + row * in.stride;
        const auto target = static_cast<std::size_t>(in.targets[row]);
        const rules::Normalizer norm = normalizer(team, V, x);
        const float factor = scale / norm.sum;
        // The thread that reads a logit is the one that writes over it, if dx is x.
        team.each(V, [&](std::size_t i) {
          const float logit = x[i], probability = rules::exp(logit - norm.largest) * factor;
          dx[i] = T(i == target ? probability - scale : probability);
          if (i == target) out.losses[row] = loss_of(norm, logit);
        });
        team.each(in.stride - V, [&](std::size_t i) { dx[V + i] = T(); });
      });
}

SHOAL_FOR_TYPES(cross_entropy);

}  // namespace shoal::kernels
