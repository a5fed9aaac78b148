// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/dropout.hpp"

#include "kernels/common/instances.hpp"
#include "kernels/portable/launch.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

/// y = x * factor + residual, where residual may be null.
template <typename T>
void scale_add(const char* label, const Dropout& dropout, std::size_t samples, std::size_t elements, const T* x,
               const T* residual, T* y) {
  const float kept = 1.0F / (1.0F - dropout.probability);
  // A thread takes the four elements of one call of Philox.
  const std::size_t groups = (elements + 3) / 4;
  for_elements(
      label, samples * groups, SHOAL_LAMBDA(std::size_t index) {
        const std::size_t sample = index / groups, first = index % groups * 4,
                          end = first + 4 < elements ? first + 4 : elements;
        const Philox4 bits = dropout_bits(dropout, dropout.first_sample + static_cast<std::uint32_t>(sample), first / 4);
        for (std::size_t i = first; i < end; ++i) {
          const bool keep = !dropout.active() || uniform(bits[i % 4]) > dropout.probability;
          const std::size_t at = sample * elements + i;
          const float v = static_cast<float>(x[at]) * (keep ? kept : 0.0F);
          y[at] = T(residual == nullptr ? v : static_cast<float>(residual[at]) + v);
        }
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

SHOAL_FOR_TYPES(dropout_add);
SHOAL_FOR_TYPES(dropout_backward);

}  // namespace shoal::kernels
