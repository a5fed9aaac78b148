// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/pointwise.hpp"

#include "kernels/common/convert_rounds.hpp"
#include "kernels/common/instances.hpp"
#include "kernels/portable/launch.hpp"
#include "kernels/rules/gelu.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

template <typename From, typename To>
void convert_part(std::size_t n, const From* x, To* y) {
  set_elements(
      "convert", n, y, SHOAL_LAMBDA(std::size_t i) { return static_cast<float>(x[i]); });
}

}  // namespace

template <typename T>
void gelu_forward(std::size_t n, const T* u, T* g) {
  set_elements(
      "gelu_forward", n, g, SHOAL_LAMBDA(std::size_t i) {
        const float v = u[i];
        return v * rules::gelu_gate<T>(v).open;
      });
}

template <typename T>
void add(std::size_t n, const T* from, T* into) {
  set_elements(
      "add", n, into, SHOAL_LAMBDA(std::size_t i) { return static_cast<float>(into[i]) + static_cast<float>(from[i]); });
}

template <typename From, typename To>
void convert(std::size_t n, const From* x, To* y) {
  convert_in_rounds(n, x, y, 1, [=](std::size_t begin, std::size_t count) { convert_part(count, x + begin, y + begin); });
}

template <typename T>
void relu_forward(std::size_t n, T* x) {
  set_elements(
      "relu_forward", n, x, SHOAL_LAMBDA(std::size_t i) {
        const float v = x[i];
        return v < 0.0F ? 0.0F : v;  // NaN stays
      });
}

template <typename T>
void relu_backward(std::size_t n, const T* y, const T* dy, T* dx) {
  set_elements(
      "relu_backward", n, dx, SHOAL_LAMBDA(std::size_t i) {
        const float gradient = dy[i];
        return static_cast<float>(y[i]) > 0.0F ? gradient : 0.0F;
      });
}

SHOAL_FOR_TYPES(gelu_forward);
SHOAL_FOR_TYPES(add);
SHOAL_FOR_TYPES(relu_forward);
SHOAL_FOR_TYPES(relu_backward);
SHOAL_FOR_CONVERSIONS(convert);

}  // namespace shoal::kernels
