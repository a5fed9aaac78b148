// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/storage.hpp"

#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/pointwise.hpp"
#include "shoal/kernels/reduce.hpp"

namespace shoal::kernels {

namespace {

void copy_floats(std::size_t n, const void* x, void* y) {
  if (x != y) copy_bytes(n * sizeof(float), x, y);
}

}  // namespace

void add(DType type, std::size_t n, const void* from, void* into) {
  dispatch(type, [=]<typename T>(T) { add(n, static_cast<const T*>(from), static_cast<T*>(into)); });
}

void narrow(DType type, std::size_t n, const float* x, void* y) {
  if (type == DType::f32) return copy_floats(n, x, y);
  dispatch(type, [=]<typename T>(T) {
    if constexpr (sizeof(T) < sizeof(float)) convert(n, x, static_cast<T*>(y));
  });
}

void widen(DType type, std::size_t n, const void* x, float* y) {
  if (type == DType::f32) return copy_floats(n, x, y);
  dispatch(type, [=]<typename T>(T) {
    if constexpr (sizeof(T) < sizeof(float)) convert(n, static_cast<const T*>(x), y);
  });
}

void sum_of_squares_by_granule(DType type, std::size_t n, const void* x, double* sums) {
  dispatch(type, [=]<typename T>(T) { sum_of_squares_by_granule(n, static_cast<const T*>(x), sums); });
}

}  // namespace shoal::kernels
