// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/dropout.hpp"

#include "launch.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

/// The elements of one call of Philox.
struct Four {
  float of[4];
};

/// y = x * factor + residual, where residual may be null.
template <typename T>
void scale_add(const char* label, const Dropout& dropout, std::size_t samples, std::size_t elements, const T* x,
               const T* residual, T* y) {
  const float kept = 1.0F / (1.0F - dropout.probability);
  const std::size_t groups = parts(elements, 4);
  for_elements(
      label, samples * groups,
      SHOAL_LAMBDA(std::size_t index) {
        const std::size_t sample = index / groups, first = index % groups * 4, end = smaller(first + 4, elements);
        const Philox4 bits = dropout_bits(dropout, dropout.first_sample + static_cast<std::uint32_t>(sample), first / 4);
        Four values{};
        for (std::size_t i = first; i < end; ++i) {
          const bool keep = !dropout.active() || uniform(bits[i % 4]) > dropout.probability;
          const std::size_t at = sample * elements + i;
          const float v = static_cast<float>(x[at]) * (keep ? kept : 0.0F);
          values.of[i - first] = residual == nullptr ? v : static_cast<float>(residual[at]) + v;
        }
        return values;
      },
      SHOAL_LAMBDA(std::size_t index, const Four& values) {
        const std::size_t first = index % groups * 4, end = smaller(first + 4, elements);
        T* const to = y + index / groups * elements;
        for (std::size_t i = first; i < end; ++i) to[i] = T(values.of[i - first]);
      });
}

}  // namespace

template <typename T>
void dropout_add(const Dropout& dropout, std::size_t samples, std::size_t elements, const T* x, const T* residual, T* y) {
  scale_add("dropout_add", dropout, samples, elements, x, residual, y);
}

template <typename T>
void dropout_backward(const Dropout& dropout, std::size_t samples, std::size_t elements, const T* dy, T* dx) {
  scale_add("dropout_backward", dropout, samples, elements, dy, static_cast<const T*>(nullptr), dx);
}

}  // namespace shoal::kernels

#include "../instances/dropout.hpp"
