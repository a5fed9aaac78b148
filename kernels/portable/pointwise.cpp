// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/pointwise.hpp"

#include "../convert_rounds.hpp"
#include "../rules/gelu.hpp"
#include "column_sums.hpp"
#include "launch.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

template <typename From, typename To>
void convert_part(std::size_t n, const From* x, To* y) {
  for_elements(
      "convert", n, SHOAL_LAMBDA(std::size_t i) { y[i] = To(static_cast<float>(x[i])); });
}

}  // namespace

template <typename T>
void gelu_forward(std::size_t n, const T* u, T* g) {
  for_elements(
      "gelu_forward", n, SHOAL_LAMBDA(std::size_t i) {
        const float v = u[i];
        g[i] = T(v * rules::gelu_gate<T>(v).open);
      });
}

template <typename T>
void gelu_backward(RowShape shape, const GeluBackwardInputs<T>& in, const GeluBackwardOutputs<T>& out,
                   Span<std::byte> workspace) {
  const T *const u = in.u, *const dg = in.dg;
  T *const g = out.g, *const du = out.du;
  column_sums(
      "gelu_backward", shape, out.dbias, workspace, SHOAL_LAMBDA(std::size_t i) {
        const float v = u[i];
        const rules::Gate<float> gate = rules::gelu_gate<T>(v);
        const float value = v * gate.open, gradient = static_cast<float>(dg[i]) * rules::gelu_slope(v, value, gate);
        g[i] = T(value);
        du[i] = T(gradient);
        return gradient;
      });
}

template <typename T>
void column_sum(RowShape shape, const T* x, float* sums, Span<std::byte> workspace) {
  column_sums(
      "column_sum", shape, sums, workspace, SHOAL_LAMBDA(std::size_t i) { return static_cast<float>(x[i]); });
}

template <typename T>
void add(std::size_t n, const T* from, T* into) {
  for_elements(
      "add", n, SHOAL_LAMBDA(std::size_t i) { into[i] = T(static_cast<float>(into[i]) + static_cast<float>(from[i])); });
}

template <typename From, typename To>
void convert(std::size_t n, const From* x, To* y) {
  convert_in_rounds(n, x, y, 1, [=](std::size_t begin, std::size_t count) { convert_part(count, x + begin, y + begin); });
}

template <typename T>
void relu_forward(std::size_t n, T* x) {
  for_elements(
      "relu_forward", n, SHOAL_LAMBDA(std::size_t i) {
        const float v = x[i];
        x[i] = T(v < 0.0F ? 0.0F : v);  // NaN stays
      });
}

template <typename T>
void relu_backward(std::size_t n, const T* y, const T* dy, T* dx) {
  for_elements(
      "relu_backward", n, SHOAL_LAMBDA(std::size_t i) {
        const float gradient = dy[i];
        dx[i] = T(static_cast<float>(y[i]) > 0.0F ? gradient : 0.0F);
      });
}

}  // namespace shoal::kernels

#include "../instances/pointwise.hpp"
