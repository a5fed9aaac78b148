// SPDX-License-Identifier: Apache-2.0
// Exchanges of lanes between vectors and within them.
#pragma once

#include <cstddef>
#include <utility>

#include "kernels/cpu/vectors/vectors.hpp"

namespace shoal::kernels::simd {

/// A register of elements of a and b: its lane l is element Source(l) of a followed by b.
template <class R, class Source>
SHOAL_INLINE R shuffled(R a, R b, Source /*of lane*/) {
  return [&]<std::size_t... l>(std::index_sequence<l...>) {
    return __builtin_shufflevector(a, b, static_cast<int>(Source{}(l))...);
  }
  (std::make_index_sequence<sizeof(R) / sizeof(a[0])>());
}

#if defined(__AVX512F__)
template <class V>
inline constexpr std::size_t lanes_in_register = sizeof(V) / sizeof(V{}[0]);
#else
template <class V>
inline constexpr std::size_t lanes_in_register = V::half;
#endif

/// Lane l of the result is lane l ^ distance of v.
template <std::size_t distance, class V>
SHOAL_INLINE V exchanged(V v) {
  constexpr auto other = [](std::size_t l) { return l ^ distance; };
#if defined(__AVX512F__)
  return shuffled(v, v, other);
#else
  if constexpr (distance == V::half) {
    return {v.upper, v.lower};
  } else {
    return {shuffled(v.lower, v.lower, other), shuffled(v.upper, v.upper, other)};
  }
#endif
}

/// A step of a matrix's transposition: the lanes l + distance of the row a change places with the lanes l of the row b.
template <std::size_t distance, class V>
SHOAL_INLINE void exchange_blocks(V& a, V& b) {
  constexpr auto first = [](std::size_t l) { return (l & distance) != 0 ? lanes_in_register<V> + l - distance : l; };
  constexpr auto second = [](std::size_t l) { return (l & distance) != 0 ? lanes_in_register<V> + l : l + distance; };
  const V x = a, y = b;
#if defined(__AVX512F__)
  a = shuffled(x, y, first);
  b = shuffled(x, y, second);
#else
  if constexpr (distance == V::half) {
    a = {x.lower, y.lower};
    b = {x.upper, y.upper};
  } else {
    a = {shuffled(x.lower, y.lower, first), shuffled(x.upper, y.upper, first)};
    b = {shuffled(x.lower, y.lower, second), shuffled(x.upper, y.upper, second)};
  }
#endif
}

/// Groups of `group` lanes of the lower (half 0) or upper (half 1) halves of a and b in turn.
template <std::size_t group, std::size_t half>
SHOAL_INLINE Floats interleaved(Floats a, Floats b) {
  constexpr std::size_t lanes = lanes_in_register<Floats>;
#if defined(__AVX512F__)
  return shuffled(a, b, [](std::size_t l) {
    const std::size_t number = l / group;
    return number % 2 * lanes + half * lanes / 2 + number / 2 * group + l % group;
  });
#else
  const auto of_both = [](std::size_t l) { return l / group % 2 * lanes + l / (2 * group) * group + l % group; };
  const Floats::Register x = half == 0 ? a.lower : a.upper, y = half == 0 ? b.lower : b.upper;
  return {shuffled(x, y, of_both), shuffled(x, y, [](std::size_t l) { return decltype(of_both){}(lanes + l); })};
#endif
}

}  // namespace shoal::kernels::simd
