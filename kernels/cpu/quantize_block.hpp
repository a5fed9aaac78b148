// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes one block by the rules of rules/quantize.hpp: fp32 to scales and codes, and back. `code` is a
// DeepSpeedCode or an AccurateCode.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/common/quant_format.hpp"
#include "kernels/cpu/vectors/codes.hpp"
#include "kernels/rules/quantize.hpp"

namespace shoal::kernels {

/// The extremum of n elements.
SHOAL_INLINE std::uint32_t extremum(const float* x, std::size_t n) {
  simd::Words most{};
  simd::for_vectors(n, [&](std::size_t i, auto part) { most = simd::larger(rules::turned(simd::load(x + i, part)), most); });
  const auto fold = [&](simd::Words other) { most = simd::larger(other, most); };
  fold(simd::exchanged<8>(most));
  fold(simd::exchanged<4>(most));
  fold(simd::exchanged<2>(most));
  fold(simd::exchanged<1>(most));
  return most[0];  // a comparison of two lanes might become a branch, which the processor could not predict
}

/// Returns the word of the block's scales, which it has also stored.
template <class Code>
SHOAL_INLINE std::uint32_t encode(const Code& code, const float* x, std::size_t n, std::byte* scales, std::byte* codes) {
  using Bits = Codes<Code::bits>;
  std::uint32_t extrema[Code::parts] = {}, largest = 0;
  rules::for_parts(code, n, [&](std::size_t p, std::size_t begin, std::size_t elements) {
    extrema[p] = extremum(x + begin, elements);
    largest = std::max(largest, extrema[p]);
  });
  const typename Code::Encoder encoder(extrema, largest);
  const std::uint32_t word = encoder.word();
  std::memcpy(scales, &word, sizeof word);
  const bool finite = !encoder.overflowed();
  rules::for_parts(code, n, [&](std::size_t p, std::size_t begin, std::size_t elements) {
    const float* const from = x + begin;
    std::byte* const to = Bits::at(codes, begin);
    const float per_unit = encoder.per_unit(p);
    simd::for_vectors(elements, [=](std::size_t i, auto part) {
      const simd::Floats k = finite ? Code::code(simd::load(from + i, part) * per_unit) : simd::Floats{};
      Bits::store(rules::nearest_code<Code::bits>(k), Bits::at(to, i), part.lanes);
    });
  });
  return word;
}

/// Uses the decoded values of a block.
template <Decode mode, class Code>
SHOAL_INLINE void decode(const Code& code, const std::byte* scales, const std::byte* codes, std::size_t n, float* y) {
  using Bits = Codes<Code::bits>;
  std::uint32_t word = 0;
  std::memcpy(&word, scales, sizeof word);
  const typename Code::Decoder decoder(word);
  rules::for_parts(code, n, [&](std::size_t p, std::size_t begin, std::size_t elements) {
    const std::byte* const from = Bits::at(codes, begin);
    float* const to = y + begin;
    const float unit = decoder.unit(p);
    simd::for_vectors(elements, [=](std::size_t i, auto part) {
      const simd::Ints k = Bits::load(Bits::at(from, i), part.lanes);
      simd::Floats v = Code::value(rules::Number<simd::Floats>::floats(k)) * unit;
      if constexpr (mode == Decode::add) v = simd::load(to + i, part) + v;
      if constexpr (mode == Decode::subtract) v = simd::load(to + i, part) - v;
      simd::store(to + i, v, part);
    });
  });
}

}  // namespace shoal::kernels
