// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/pointwise.hpp"

#include <algorithm>

#include "../rules/gelu.hpp"
#include "column_sums.hpp"
#include "launch.hpp"
#include "shoal/base/error.hpp"

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

std::size_t column_sum_workspace_bytes(RowShape shape) { return row_groups(shape.rows) * shape.C * sizeof(float); }

template <typename T>
void add(std::size_t n, const T* from, T* into) {
  for_elements(
      "add", n, SHOAL_LAMBDA(std::size_t i) { into[i] = T(static_cast<float>(into[i]) + static_cast<float>(from[i])); });
}

template <typename From, typename To>
void convert(std::size_t n, const From* x, To* y) {
  const auto part_from = [=](std::size_t begin, std::size_t elements) { convert_part(elements, x + begin, y + begin); };
  if (static_cast<const void*>(x) != static_cast<void*>(y)) return part_from(0, n);
  // In place: each round converts as many elements as are already done, and overwrites only these.
  require(n == 0 || sizeof(To) < sizeof(From), "convert: to a larger type in place");
  for (std::size_t done = 0; done < n;) {
    const std::size_t round = std::min(n - done, std::max<std::size_t>(done, 1));
    part_from(done, round);
    done += round;
  }
}

void fill(std::size_t n, float value, float* x) {
  for_elements(
      "fill", n, SHOAL_LAMBDA(std::size_t i) { x[i] = value; });
}

void copy_bytes(std::size_t bytes, const void* from, void* to) { portable::copy("copy", bytes, from, to); }

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

template void add<float>(std::size_t, const float*, float*);
template void add<bf16>(std::size_t, const bf16*, bf16*);
template void add<f16>(std::size_t, const f16*, f16*);
template void convert<float, bf16>(std::size_t, const float*, bf16*);
template void convert<float, f16>(std::size_t, const float*, f16*);
template void convert<bf16, float>(std::size_t, const bf16*, float*);
template void convert<f16, float>(std::size_t, const f16*, float*);
template void gelu_forward<float>(std::size_t, const float*, float*);
template void gelu_forward<bf16>(std::size_t, const bf16*, bf16*);
template void gelu_forward<f16>(std::size_t, const f16*, f16*);
template void gelu_backward<float>(RowShape, const GeluBackwardInputs<float>&, const GeluBackwardOutputs<float>&,
                                   Span<std::byte>);
template void gelu_backward<bf16>(RowShape, const GeluBackwardInputs<bf16>&, const GeluBackwardOutputs<bf16>&,
                                  Span<std::byte>);
template void gelu_backward<f16>(RowShape, const GeluBackwardInputs<f16>&, const GeluBackwardOutputs<f16>&, Span<std::byte>);
template void column_sum<float>(RowShape, const float*, float*, Span<std::byte>);
template void column_sum<bf16>(RowShape, const bf16*, float*, Span<std::byte>);
template void column_sum<f16>(RowShape, const f16*, float*, Span<std::byte>);
template void relu_forward<float>(std::size_t, float*);
template void relu_forward<bf16>(std::size_t, bf16*);
template void relu_forward<f16>(std::size_t, f16*);
template void relu_backward<float>(std::size_t, const float*, const float*, float*);
template void relu_backward<bf16>(std::size_t, const bf16*, const bf16*, bf16*);
template void relu_backward<f16>(std::size_t, const f16*, const f16*, f16*);

}  // namespace shoal::kernels
