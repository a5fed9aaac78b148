// SPDX-License-Identifier: Apache-2.0
// What a team does with one block, by the rules of rules/quantize.hpp: it encodes floats, which are in its scratch memory,
// and decodes codes. `code` is a DeepSpeedCode or an AccurateCode.
//
// A thread writes whole bytes, so with INT4 it computes two elements. If a block has an odd number of elements, there is one
// float more in scratch memory, and its code is stored: so encode() wants it to be zero, and decode() overwrites it.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/common/quant_format.hpp"
#include "kernels/portable/launch.hpp"
#include "kernels/rules/quantize.hpp"

namespace shoal::kernels::portable {

/// Scales are not aligned, since the codes before them have any number of bytes.
SHOAL_FUNCTION std::uint32_t load_scales(const std::byte* from) {
  std::uint32_t word = 0;
  memcpy(&word, from, sizeof word);
  return word;
}
SHOAL_FUNCTION void store_scales(std::byte* to, std::uint32_t word) { memcpy(to, &word, sizeof word); }

/// Writes the codes of x, and returns the word of the block's scales to all threads. Waits for the other threads before the
/// codes are written, but not after that.
template <class Code>
SHOAL_FUNCTION std::uint32_t encode(const Team& team, const Code& code, const float* x, std::size_t n, std::byte* codes) {
  constexpr std::size_t per_byte = 8 / Code::bits;
  std::uint32_t extrema[Code::parts] = {}, largest = 0;
  rules::for_parts(code, n, [&](std::size_t p, std::size_t begin, std::size_t elements) {
    extrema[p] = team.max(elements, 0U, [=](std::size_t i) { return rules::turned(x[begin + i]); });
    largest = extrema[p] > largest ? extrema[p] : largest;
  });
  const typename Code::Encoder encoder(extrema, largest);
  const bool finite = !encoder.overflowed();
  rules::for_parts(code, n, [&](std::size_t p, std::size_t begin, std::size_t elements) {
    const float* const from = x + begin;
    std::byte* const to = codes + begin / per_byte;
    const float per_unit = encoder.per_unit(p);
    team.each((elements + per_byte - 1) / per_byte, [=](std::size_t i) {
      std::uint32_t byte = 0;
      for (std::size_t e = 0; e < per_byte; ++e) {
        const float k = finite ? Code::code(from[i * per_byte + e] * per_unit) : 0.0F;
        const auto bits = static_cast<std::uint32_t>(rules::nearest_code<Code::bits>(k));
        byte = byte << Code::bits | (bits & ((1U << Code::bits) - 1U));
      }
      to[i] = static_cast<std::byte>(byte);
    });
  });
  return encoder.word();
}

/// Uses one decoded value.
template <Decode mode>
SHOAL_FUNCTION void use(float& y, float v) {
  if constexpr (mode == Decode::replace) y = v;
  if constexpr (mode == Decode::add) y += v;
  if constexpr (mode == Decode::subtract) y -= v;
}

/// y is in scratch memory. Does not wait for the other threads. The thread that decodes a byte is the one that encode() lets
/// write it.
template <Decode mode, class Code>
SHOAL_FUNCTION void decode(const Team& team, const Code& code, std::uint32_t word, const std::byte* codes, std::size_t n,
                           float* y) {
  constexpr std::size_t per_byte = 8 / Code::bits;
  const typename Code::Decoder decoder(word);
  rules::for_parts(code, n, [&](std::size_t p, std::size_t begin, std::size_t elements) {
    const float unit = decoder.unit(p);
    const std::byte* const from = codes + begin / per_byte;
    float* const to = y + begin;
    team.each((elements + per_byte - 1) / per_byte, [=](std::size_t i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(from[i]) << 24U;  // a code's sign is the word's
      for (std::size_t e = 0; e < per_byte; ++e) {
        const auto k = static_cast<std::int32_t>(bits << Code::bits * e) >> (32 - Code::bits);
        use<mode>(to[i * per_byte + e], Code::value(rules::Number<float>::floats(k)) * unit);
      }
    });
  });
}

}  // namespace shoal::kernels::portable
