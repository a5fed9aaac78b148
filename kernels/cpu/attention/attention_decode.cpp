// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/common/instances.hpp"
#include "kernels/common/parallel_for.hpp"
#include "kernels/cpu/vectors/simd.hpp"
#include "kernels/rules/functions.hpp"
#include "shoal/kernels/attention.hpp"

namespace shoal::kernels {

// Limited by the reading of the cache. So there is one pass over the positions (for each 256 channels of a head), in which
// the sums are rescaled whenever a larger score is found.
template <typename T>
void attention_decode(std::size_t heads, std::size_t head_size, const T* q, const KeyValueCache<T>& cache, T* out) {
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_size));
  parallel_for("attention_decode", heads, [=](std::size_t head) {
    constexpr std::size_t most = 16;  // vectors of a head's channels that one pass sums
    const T* const query = q + head * head_size;
    for (std::size_t first = 0; first < head_size; first += most * simd::width) {
      const std::size_t channels = std::min(most * simd::width, head_size - first);
      simd::Floats sums[most] = {};
      float largest = -INFINITY, total = 0.0F;
      for (std::size_t t = 0; t < cache.length; ++t) {
        const T* const key = cache.keys + t * cache.stride + head * head_size;
        simd::Floats dot{};
        simd::for_vectors(head_size, [&](std::size_t c, auto part) {
          dot = simd::fma(simd::load(query + c, part), simd::load(key + c, part), dot);
        });
        const float score = simd::sum(dot) * scale, now = std::max(largest, score);
        const float correction = rules::exp(simd::broadcast(largest - now))[0],
                    weight = rules::exp(simd::broadcast(score - now))[0];
        total = total * correction + weight;
        const T* const value = cache.values + t * cache.stride + head * head_size + first;
        simd::for_vectors(channels, [&](std::size_t c, auto part) {
          simd::Floats& sum = sums[c / simd::width];
          sum = simd::fma(simd::load(value + c, part), simd::broadcast(weight), sum * correction);
        });
        largest = now;
      }
      simd::for_vectors(channels, [&](std::size_t c, auto part) {
        simd::store(out + head * head_size + first + c, sums[c / simd::width] / total, part);
      });
    }
  });
}

SHOAL_FOR_TYPES(attention_decode);

}  // namespace shoal::kernels
