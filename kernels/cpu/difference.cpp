// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/difference.hpp"

#include "kernels/cpu/vectors/loops.hpp"
#include "kernels/cpu/vectors/simd.hpp"

namespace shoal::kernels {

using simd::broadcast;
using simd::for_vectors;
using simd::load;
using simd::store;

namespace {

/// Calls rule(i, part) for each vector, which begins at element i.
template <class Rule>
void each(const char* label, std::size_t n, const Rule& rule) {
  for_elements(label, n, [=](std::size_t begin, std::size_t count) {
    for_vectors(count, [=](std::size_t offset, auto part) { rule(begin + offset, part); });
  });
}

}  // namespace

void subtract(DType type, std::size_t n, const float* x, const float* base, void* difference) {
  dispatch(type, [=]<typename T>(T) {
    auto* const to = static_cast<T*>(difference);
    each("subtract", n, [=](std::size_t i, auto part) { store(to + i, load(x + i, part) - load(base + i, part), part); });
  });
}

void add_to_base(DType type, std::size_t n, const float* base, const void* difference, float divisor, float* x) {
  dispatch(type, [=]<typename T>(T) {
    const auto* const from = static_cast<const T*>(difference);
    each("add_to_base", n, [=](std::size_t i, auto part) {
      store(x + i, load(base + i, part) + load(from + i, part) / broadcast(divisor), part);
    });
  });
}

}  // namespace shoal::kernels
