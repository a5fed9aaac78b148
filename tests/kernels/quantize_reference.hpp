// SPDX-License-Identifier: Apache-2.0
// Quantizes one block, element by element, as include/shoal/kernels/quantize.hpp describes it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "shoal/kernels/quantize.hpp"

namespace shoal::kernels::test {

struct ReferenceBlock {
  std::vector<int> codes;
  std::vector<float> values;  ///< the values of the codes
};

inline bool all_finite(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
}

inline ReferenceBlock overflow(std::size_t n) {
  return {std::vector<int>(n, 0), std::vector<float>(n, std::numeric_limits<float>::quiet_NaN())};
}

inline ReferenceBlock deepspeed_reference(const std::vector<float>& x, int bits) {
  if (!all_finite(x)) return overflow(x.size());
  const int half = 1 << (bits - 1);
  float largest = 0.0F;
  for (const float v : x) largest = std::max(largest, std::abs(v));
  const float per_unit = largest == 0.0F ? 1.0F : static_cast<float>(2 * half) / (2.0F * largest);
  ReferenceBlock block;
  for (const float v : x) {
    block.codes.push_back(std::clamp(static_cast<int>(std::rint(v * per_unit)), -half, half - 1));
    block.values.push_back(static_cast<float>(block.codes.back()) * (1.0F / per_unit));
  }
  return block;
}

/// The element with the largest magnitude; the negative one if there are two.
inline float extremum_of(const std::vector<float>& x, Range range) {
  float found = 0.0F;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    if (std::abs(x[i]) > std::abs(found) || x[i] == -std::abs(found)) found = x[i];
  }
  return found;
}

/// The power of two of which the scales of a block are parts.
inline float power_of(const std::vector<float>& x) {
  int exponent = 0;
  const float fraction = std::frexp(std::abs(extremum_of(x, {0, x.size()})), &exponent);
  return std::max(0x1p-100F, std::ldexp(1.0F, fraction == 0.5F ? exponent - 1 : exponent));
}

inline std::size_t quarter_of(std::size_t block) { return round_up((block + 3) / 4, 2); }

/// block: elements of a whole block; x may be its first part.
inline ReferenceBlock accurate_reference(const std::vector<float>& x, int bits, std::size_t block) {
  if (!all_finite(x) || std::abs(extremum_of(x, {0, x.size()})) > 0x1p127F) return overflow(x.size());
  const int half = 1 << (bits - 1);
  ReferenceBlock result;
  for (std::size_t begin = 0; begin < x.size(); begin += quarter_of(block)) {
    const std::size_t end = std::min(x.size(), begin + quarter_of(block));
    const float most = extremum_of(x, {begin, end});
    const float parts = std::abs(most) / power_of(x) * 32.0F;
    const float whole = std::max(1.0F, bits == 8 ? std::ceil(parts) : std::nearbyint(parts));
    const float scale = (most > 0.0F || std::signbit(most) == 0 ? -1.0F : 1.0F) * whole / 32.0F * power_of(x);
    const float unit = scale / (bits == 8 ? 128.0F : 192.0F), per_unit = 1.0F / unit;
    for (std::size_t i = begin; i < end; ++i) {
      const float units = x[i] * per_unit;
      const float code = bits == 8 ? units : std::copysign(std::sqrt(std::abs(units) + 64.0F) - 8.0F, units);
      const int k = std::clamp(static_cast<int>(std::rint(code)), -half, half - 1);
      result.codes.push_back(k);
      result.values.push_back(static_cast<float>(bits == 8 ? k : k * (std::abs(k) + 16)) * unit);
    }
  }
  return result;
}

}  // namespace shoal::kernels::test
