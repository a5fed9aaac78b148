// SPDX-License-Identifier: Apache-2.0
#include "kernels/portable/column_sums.hpp"

#include "kernels/common/instances.hpp"
#include "kernels/rules/gelu.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

/// What GELU's derivative takes.
struct ValueAndSlope {
  float value, slope;
};

}  // namespace

template <typename T>
void gelu_backward(RowShape shape, const GeluBackwardInputs<T>& in, const GeluBackwardOutputs<T>& out,
                   Span<std::byte> workspace) {
  const T *const u = in.u, *const dg = in.dg;
  T *const g = out.g, *const du = out.du;
  const std::size_t C = shape.C;
  column_sums(
      "gelu_backward", shape, out.dbias, workspace,
      SHOAL_LAMBDA(std::size_t row, std::size_t column) {
        return ValueAndSlope{static_cast<float>(u[row * C + column]), static_cast<float>(dg[row * C + column])};
      },
      SHOAL_LAMBDA(std::size_t row, std::size_t column, const ValueAndSlope& of, float& sum) {
        const rules::Gate<float> gate = rules::gelu_gate<T>(of.value);
        const float value = of.value * gate.open, gradient = of.slope * rules::gelu_slope(of.value, value, gate);
        g[row * C + column] = T(value);
        du[row * C + column] = T(gradient);
        sum += gradient;
      });
}

template <typename T>
void column_sum(RowShape shape, const T* x, float* sums, Span<std::byte> workspace) {
  const std::size_t C = shape.C;
  column_sums(
      "column_sum", shape, sums, workspace,
      SHOAL_LAMBDA(std::size_t row, std::size_t column) { return static_cast<float>(x[row * C + column]); },
      SHOAL_LAMBDA(std::size_t, std::size_t, float value, float& sum) { sum += value; });
}

SHOAL_FOR_TYPES(gelu_backward);
SHOAL_FOR_TYPES(column_sum);

}  // namespace shoal::kernels
