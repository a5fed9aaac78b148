// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "kernels/common/instances.hpp"
#include "kernels/portable/attention_tiles.hpp"
#include "kernels/rules/functions.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

/// Positions of the cache whose scores a team computes before it adds their values.
constexpr std::size_t positions_per_tile = 64;

/// One head, whose query, keys and values begin at these addresses. The sums are rescaled whenever a larger score is found.
template <typename T>
SHOAL_FUNCTION void decode(const Team& team, std::size_t size, float scale, const T* q, const KeyValueCache<T>& head,
                           T* out) {
  using N = rules::Number<float>;
  auto* const scores = reinterpret_cast<float*>(team.scratch());
  float* const sums = scores + positions_per_tile;
  float largest = -std::numeric_limits<float>::infinity(), total = 0.0F;
  team.each(size, [&](std::size_t c) { sums[c] = 0.0F; });
  for (std::size_t first = 0; first < head.length; first += positions_per_tile) {
    const std::size_t here = smaller(positions_per_tile, head.length - first);
    const T *const keys = head.keys + first * head.stride, *const values = head.values + first * head.stride;
    team.each(here, [&](std::size_t t) { scores[t] = dot(size, q, keys + t * head.stride) * scale; });
    team.sync();
    const float now = team.max(here, largest, [&](std::size_t t) { return scores[t]; });
    team.each(here, [&](std::size_t t) { scores[t] = rules::exp(scores[t] - now); });
    team.sync();
    const float correction = rules::exp(largest - now);
    total = total * correction + team.sum(here, [&](std::size_t t, float& sum) { sum += scores[t]; });
    largest = now;
    team.each(size, [&](std::size_t c) { sums[c] *= correction; });
    for (std::size_t t = 0; t < here; ++t) {
      const T* const value = values + t * head.stride;
      team.each(size, [&](std::size_t c) { sums[c] = N::fma(static_cast<float>(value[c]), scores[t], sums[c]); });
    }
    team.sync();
  }
  team.each(size, [&](std::size_t c) { out[c] = T(sums[c] / total); });
}

}  // namespace

template <typename T>
void attention_decode(std::size_t heads, std::size_t head_size, const T* q, const KeyValueCache<T>& cache, T* out) {
  const KeyValueCache<T> all = cache;
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_size));
  const std::size_t scratch = (positions_per_tile + head_size) * sizeof(float);
  for_teams(
      "attention_decode", heads, scratch, SHOAL_LAMBDA(std::size_t head, const Team& team) {
        const std::size_t at = head * head_size;
        const KeyValueCache<T> of_head{all.keys + at, all.values + at, all.stride, all.length};
        decode(team, head_size, scale, q + at, of_head, out + at);
      });
}

SHOAL_FOR_TYPES(attention_decode);

}  // namespace shoal::kernels
