// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/dropout.hpp"

#include <algorithm>
#include <array>

#include "kernels/common/instances.hpp"
#include "kernels/cpu/vectors/loops.hpp"
#include "kernels/cpu/vectors/simd.hpp"

namespace shoal::kernels {

using simd::broadcast;
using simd::Floats;
using simd::for_vectors;
using simd::load;
using simd::store;
using simd::Words;

namespace {

/// Elements of one call of factors(), which computes sixteen Philox calls of four words.
constexpr std::size_t batch = 4 * simd::width;

#if defined(__AVX512F__)
using Register = Words;
#else
using Register = Words::Register;
#endif
using Longs = std::uint64_t __attribute__((vector_size(sizeof(Register))));

/// Upper and lower halves of the 64-bit products of the words of a register with one constant.
SHOAL_INLINE void multiply_register(Register a, std::uint32_t b, Register& upper, Register& lower) {
  const auto pairs = std::bit_cast<Longs>(a);
#if defined(__AVX512F__)
  const auto factor = std::bit_cast<__m512i>(Longs{} + b);
  const auto even = std::bit_cast<Longs>(_mm512_maskz_mul_epu32(0xff, std::bit_cast<__m512i>(pairs), factor));
  const auto odd = std::bit_cast<Longs>(_mm512_maskz_mul_epu32(0xff, std::bit_cast<__m512i>(pairs >> 32U), factor));
#elif defined(__AVX2__)
  const auto factor = reinterpret_cast<__m256i>(Longs{} + b);
  const auto even = reinterpret_cast<Longs>(_mm256_mul_epu32(reinterpret_cast<__m256i>(pairs), factor));
  const auto odd = reinterpret_cast<Longs>(_mm256_mul_epu32(reinterpret_cast<__m256i>(pairs >> 32U), factor));
#else
  const Longs even = (pairs & 0xffffffffU) * std::uint64_t{b};
  const Longs odd = (pairs >> 32U) * std::uint64_t{b};
#endif
  upper = std::bit_cast<Register>((even >> 32U) | (odd & 0xffffffff00000000U));
  lower = std::bit_cast<Register>((even & 0xffffffffU) | (odd << 32U));
}
SHOAL_INLINE void multiply(Words a, std::uint32_t b, Words& upper, Words& lower) {
#if defined(__AVX512F__)
  multiply_register(a, b, upper, lower);
#else
  multiply_register(a.lower, b, upper.lower, lower.lower);
  multiply_register(a.upper, b, upper.upper, lower.upper);
#endif
}

/// Computes philox() for sixteen neighbouring groups of four elements. Returns 0 for each element that is dropped and `kept`
/// for the others: four vectors, in the order of the elements.
SHOAL_INLINE std::array<Floats, 4> factors(const Dropout& d, std::uint32_t sample, std::uint64_t group, float kept) {
  // `group` is a multiple of 16, so all lanes have the same upper half of the counter.
  Words c0 = simd::cast<Words>(simd::lane_numbers()) + static_cast<std::uint32_t>(group);
  Words c1 = Words{} + d.step;
  Words c2 = Words{} + sample;
  Words c3 = Words{} + (d.site + (static_cast<std::uint32_t>(group >> 32U) << 20U));
  auto k0 = static_cast<std::uint32_t>(d.key);
  auto k1 = static_cast<std::uint32_t>(d.key >> 32U);
  for (int round = 0; round < 10; ++round) {
    Words a_upper, a_lower, b_upper, b_lower;
    multiply(c0, 0xD2511F53U, a_upper, a_lower);
    multiply(c2, 0xCD9E8D57U, b_upper, b_lower);
    c0 = b_upper ^ c1 ^ k0;
    c1 = b_lower;
    c2 = a_upper ^ c3 ^ k1;
    c3 = a_lower;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  std::array<Floats, 4> f{};
  const std::array<Words, 4> bits = {c0, c1, c2, c3};
  for (std::size_t w = 0; w < 4; ++w) {
    const auto drawn = simd::cast<simd::Ints>((bits[w] >> 8U) + 1U);  // 2^24 times the result of uniform()
    f[w] = simd::select(simd::to_floats(drawn) * 0x1p-24F > d.probability, broadcast(kept), Floats{});
  }
  // Word w of lane l belongs to element 4 l + w: a transposition of 4 x 16.
  const Floats a = simd::interleaved<1, 0>(f[0], f[1]), b = simd::interleaved<1, 1>(f[0], f[1]);
  const Floats c = simd::interleaved<1, 0>(f[2], f[3]), e = simd::interleaved<1, 1>(f[2], f[3]);
  return {simd::interleaved<2, 0>(a, c), simd::interleaved<2, 1>(a, c), simd::interleaved<2, 0>(b, e),
          simd::interleaved<2, 1>(b, e)};
}

/// y = x * factor + residual, where residual may be null.
template <typename T>
SHOAL_INLINE void scale_add(const char* label, const Dropout& d, std::size_t samples, std::size_t elements, const T* x,
                            const T* residual, T* y) {
  static_assert(item_elements % batch == 0);
  const float kept = 1.0F / (1.0F - d.probability);
  const std::size_t per_sample = (elements + item_elements - 1) / item_elements;
  parallel_for(label, samples * per_sample, [=](std::size_t item) {
    const std::size_t sample = item / per_sample;
    const std::size_t begin = item % per_sample * item_elements;
    const std::size_t end = std::min(elements, begin + item_elements);
    const auto global_sample = static_cast<std::uint32_t>(d.first_sample + sample);
    for (std::size_t first = begin; first < end; first += batch) {
      std::array<Floats, 4> factor = {broadcast(1.0F), broadcast(1.0F), broadcast(1.0F), broadcast(1.0F)};
      if (d.active()) factor = factors(d, global_sample, first / 4, kept);
      const std::size_t at = sample * elements + first;
      for_vectors(std::min(batch, end - first), [&](std::size_t i, auto part) {
        const Floats v = load(x + at + i, part) * factor[i / simd::width];
        store(y + at + i, residual == nullptr ? v : load(residual + at + i, part) + v, part);
      });
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
