// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/difference.hpp"

#include "kernels/portable/launch.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

template <typename T>
void subtract_as(std::size_t n, const float* x, const float* base, T* difference) {
  set_elements(
      "subtract", n, difference, SHOAL_LAMBDA(std::size_t i) { return x[i] - base[i]; });
}

template <typename T>
void add_to_base_as(std::size_t n, const float* base, const T* difference, float divisor, float* x) {
  set_elements(
      "add_to_base", n, x, SHOAL_LAMBDA(std::size_t i) { return base[i] + static_cast<float>(difference[i]) / divisor; });
}

}  // namespace

void subtract(DType type, std::size_t n, const float* x, const float* base, void* difference) {
  dispatch(type, [=]<typename T>(T) { subtract_as(n, x, base, static_cast<T*>(difference)); });
}

void add_to_base(DType type, std::size_t n, const float* base, const void* difference, float divisor, float* x) {
  dispatch(type, [=]<typename T>(T) { add_to_base_as(n, base, static_cast<const T*>(difference), divisor, x); });
}

}  // namespace shoal::kernels
