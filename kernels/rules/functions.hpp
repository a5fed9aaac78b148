// SPDX-License-Identifier: Apache-2.0
// Exponential and logarithm. They use no function of a C library, since the last bit of its results differs between
// versions, processors and devices.
#pragma once

#include <limits>

#include "kernels/rules/number.hpp"

namespace shoal::kernels::rules {

inline constexpr float log2e = 0x1.715476p+0F;
inline constexpr float ln2_high = 0x1.62e4p-1F;  // 14 bits, so n * ln2_high is exact
inline constexpr float ln2_low = 0x1.7f7d1cp-20F;

/// x - n ln 2, in two steps.
template <class V>
SHOAL_RULE V rest_of(V x, V n) {
  using N = Number<V>;
  return N::fma(n, N::of(-ln2_low), N::fma(n, N::of(-ln2_high), x));
}

/// e^r for |r| <= ln 2 / 2 by a polynomial of degree 6, fitted for the least relative error (3e-9).
template <class V>
SHOAL_RULE V exp_of_rest(V r) {
  using N = Number<V>;
  V p = N::fma(N::of(0x1.6a23cep-10F), r, N::of(0x1.123a2p-7F));
  p = N::fma(p, r, N::of(0x1.5558f2p-5F));
  p = N::fma(p, r, N::of(0x1.555492p-3F));
  p = N::fma(p, r, N::of(0x1.fffffcp-2F));
  p = N::fma(p, r, N::of(1.0F));
  return N::fma(p, r, N::of(1.0F));
}

/// e^x to less than 1 ulp. exp(-inf) = 0, exp(x > 88.73) = inf, subnormal results are rounded once; NaN stays NaN.
/// x = n ln 2 + r with |r| <= ln 2 / 2.
template <class V>
SHOAL_RULE V exp(V x) {
  using N = Number<V>;
  x = N::min(N::of(89.0F), N::max(N::of(-104.0F), x));  // beyond, e^x is 0 or inf in float
  const V n = N::fma(x, N::of(log2e), N::of(to_integer)) - to_integer;
  return N::scale(exp_of_rest(rest_of(x, n)), n);
}

/// 2^x with a relative error of 2^-18: accurate enough for 16-bit results. 0 and inf beyond float's range; NaN stays NaN.
/// 2^f for 0 <= f < 1 by a polynomial of degree 4, fitted for the least relative error (2^-18.5).
template <class V>
SHOAL_RULE V rough_exp2(V x) {
#if defined(__CUDA_ARCH__)  // by one instruction, with a relative error of 2^-22 and other bits
  V power{};
  asm("ex2.approx.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  using N = Number<V>;
  if constexpr (!N::scales_beyond_range) x = N::min(N::of(129.0F), N::max(N::of(-151.0F), x));
  const V f = N::fraction(x);
  V p = N::fma(N::of(0x1.bb7cd4p-7F), f, N::of(0x1.aa13f2p-5F));
  p = N::fma(p, f, N::of(0x1.ee798ap-3F));
  p = N::fma(p, f, N::of(0x1.62d166p-1F));
  p = N::fma(p, f, N::of(0x1.00002cp+0F));
  return N::scale_by_floor(p, x);
#endif
}

/// ln x to less than 2 ulp. log(0) = -inf, log(x < 0) = NaN, log(inf) = inf; NaN stays NaN.
/// x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); ln(1 + f) = f - f^2 / 2 + f^3 p(f).
template <class V>
SHOAL_RULE V log(V x) {
  using N = Number<V>;
  using Ints = typename N::Ints;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto subnormal = x < 0x1p-126F;
  const V scaled = N::select(subnormal, x * 0x1p23F, x);
  // The bits of x minus those of sqrt(1/2): the upper ones are the exponent e, the lower ones the distance of 1 + f from
  // sqrt(1/2).
  constexpr std::int32_t root = 0x3f3504f3;
  const Ints above = N::template cast<Ints>(N::template cast<typename N::Words>(scaled) - std::uint32_t{root});
  const V e = N::floats((above >> 23) - N::select(subnormal, Ints{} + 23, Ints{}));
  const V f = N::template cast<V>((above & 0x7fffff) + root) - 1.0F;
  V p = N::fma(N::of(0x1.1457a6p-4F), f, N::of(-0x1.de3c16p-4F));
  p = N::fma(p, f, N::of(0x1.e6f06ap-4F));
  p = N::fma(p, f, N::of(-0x1.fc2208p-4F));
  p = N::fma(p, f, N::of(0x1.233768p-3F));
  p = N::fma(p, f, N::of(-0x1.555c4ep-3F));
  p = N::fma(p, f, N::of(0x1.99a4b6p-3F));
  p = N::fma(p, f, N::of(-0x1.000006p-2F));
  p = N::fma(p, f, N::of(0x1.555548p-2F));
  const V square = f * f;
  const V tail = N::fma(square * f, p, e * ln2_low);
  V y = N::fma(e, N::of(ln2_high), f + N::fma(N::of(-0.5F), square, tail));
  y = N::select(x == 0.0F, N::of(-infinity), y);
  y = N::select(x < 0.0F, N::of(std::numeric_limits<float>::quiet_NaN()), y);
  return N::select(x < infinity, y, x);  // inf and NaN as they are
}

}  // namespace shoal::kernels::rules
