// SPDX-License-Identifier: Apache-2.0
// Eight neighbouring elements, or their codes, that a thread reads or writes at once.
#pragma once

#include <bit>
#include <cstddef>

#include "kernels/cuda/wide_access.hpp"

namespace shoal::kernels::cuda {

inline constexpr unsigned own = 8;

struct Eight {
  float at[own];
};

/// from: aligned to 16 bytes.
template <typename T>
__device__ Eight load_eight(const T* from) {
  Eight eight;
  if constexpr (sizeof(T) == sizeof(float)) {
    const auto low = cuda::load<4>(from), high = cuda::load<4>(from + 4);
#pragma unroll
    for (unsigned i = 0; i < own; ++i) eight.at[i] = i < 4 ? low.at[i] : high.at[i - 4];
  } else {
    const auto pack = std::bit_cast<Pack<T, own>>(*reinterpret_cast<const uint4*>(from));
#pragma unroll
    for (unsigned i = 0; i < own; ++i) eight.at[i] = static_cast<float>(pack.at[i]);
  }
  return eight;
}
template <typename T>
__device__ void store_eight(const Eight& eight, T* to) {
  if constexpr (sizeof(T) == sizeof(float)) {
    cuda::store(Pack<float, 4>{{eight.at[0], eight.at[1], eight.at[2], eight.at[3]}}, to);
    cuda::store(Pack<float, 4>{{eight.at[4], eight.at[5], eight.at[6], eight.at[7]}}, to + 4);
  } else {
    Pack<T, own> pack;
#pragma unroll
    for (unsigned i = 0; i < own; ++i) pack.at[i] = T(eight.at[i]);
    *reinterpret_cast<uint4*>(to) = std::bit_cast<uint4>(pack);
  }
}

/// The codes of eight elements.
template <int bits>
struct EightCodes {
  static constexpr unsigned words = bits / 4, per_word = own / words;
  std::uint32_t word[words] = {};

  /// The lowest bit of code e in a word. Of the two INT4 codes in a byte, the first one has the upper bits.
  static __device__ constexpr unsigned place(unsigned e) { return bits == 8 ? 8 * e : 4 * (e ^ 1U); }
  __device__ std::int32_t operator[](unsigned i) const {
    return static_cast<std::int32_t>(word[i / per_word] << (32 - bits - place(i % per_word))) >> (32 - bits);
  }
  __device__ void set(unsigned i, std::int32_t code) {
    word[i / per_word] |= (static_cast<std::uint32_t>(code) & ((1U << bits) - 1U)) << place(i % per_word);
  }
};

/// Eight elements of an array from `first` on, of which there are `count`.
template <typename T>
__device__ Eight load_some(const T* from, unsigned first, unsigned count) {
  if (first + own <= count) return load_eight(from + first);
  Eight eight{};
#pragma unroll
  for (unsigned i = 0; i < own; ++i) {
    if (first + i < count) eight.at[i] = static_cast<float>(from[first + i]);
  }
  return eight;
}
template <typename T>
__device__ void store_some(const Eight& eight, T* to, unsigned first, unsigned count) {
  if (first + own <= count) return store_eight(eight, to + first);
#pragma unroll
  for (unsigned i = 0; i < own; ++i) {
    if (first + i < count) to[first + i] = T(eight.at[i]);
  }
}

/// codes: those of a block, aligned to 4 bytes.
template <int bits>
__device__ EightCodes<bits> load_codes(const std::byte* codes, unsigned first, unsigned count) {
  EightCodes<bits> eight;
  const std::byte* const from = codes + first * bits / 8;
  if (first + own <= count) {
#pragma unroll
    for (unsigned w = 0; w < eight.words; ++w) eight.word[w] = reinterpret_cast<const std::uint32_t*>(from)[w];
  } else if (first < count) {
    const unsigned bytes = ((count - first) * bits + 7) / 8;
    for (unsigned b = 0; b < bytes; ++b) eight.word[b / 4] |= static_cast<std::uint32_t>(from[b]) << 8 * (b % 4);
  }
  return eight;
}
template <int bits>
__device__ void store_codes(const EightCodes<bits>& eight, std::byte* codes, unsigned first, unsigned count) {
  std::byte* const to = codes + first * bits / 8;
  if (first + own <= count) {
#pragma unroll
    for (unsigned w = 0; w < eight.words; ++w) reinterpret_cast<std::uint32_t*>(to)[w] = eight.word[w];
  } else if (first < count) {
    const unsigned bytes = ((count - first) * bits + 7) / 8;
    for (unsigned b = 0; b < bytes; ++b) to[b] = static_cast<std::byte>(eight.word[b / 4] >> 8 * (b % 4));
  }
}

}  // namespace shoal::kernels::cuda
