// SPDX-License-Identifier: Apache-2.0
// Number types and small value types that the whole program uses.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define SHOAL_FUNCTION __host__ __device__ inline
#else
#define SHOAL_FUNCTION inline
#endif

namespace shoal {

template <typename T>
using Span = std::span<T>;

/// Storage types of parameters, activations and gradients.
enum class DType : std::uint8_t { f32, bf16, f16 };

/// bfloat16, the upper half of a float: 8 bits of exponent, 7 of mantissa. Conversion rounds to nearest even; NaN stays NaN.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  SHOAL_FUNCTION explicit bf16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const bool nan = (wide & 0x7fffffffU) > 0x7f800000U;
#if defined(__CUDA_ARCH__)  // the same bits, in one instruction but for NaN
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    if (nan) bits = static_cast<std::uint16_t>((wide >> 16U) | 0x40U);
#else
    bits = nan ? static_cast<std::uint16_t>((wide >> 16U) | 0x40U)
               : static_cast<std::uint16_t>((wide + 0x7fffU + ((wide >> 16U) & 1U)) >> 16U);
#endif
  }
  SHOAL_FUNCTION operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }
};
static_assert(sizeof(bf16) == 2);

/// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa. Conversion rounds to nearest even, as processors do: 65520 and
/// more become infinity, numbers below 2^-14 are subnormal, NaN becomes a quiet NaN with the same sign and upper payload.
struct f16 {
  std::uint16_t bits = 0;

  f16() = default;
  SHOAL_FUNCTION explicit f16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t size = wide & 0x7fffffffU;
    std::uint32_t half = 0;
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    if (size <= 0x7f800000U) return;
#endif
    if (size > 0x7f800000U) {
      half = 0x7e00U | (size >> 13U & 0x3ffU);
    } else if (size >= 0x47800000U) {  // 2^16
      half = 0x7c00U;
    } else if (size < 0x38800000U) {  // 2^-14. A float just above 1/2 has a last place of 2^-24, as a subnormal half has
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5F) - 0x3f000000U;
    } else {  // the exponent's bias is 15, not 127; a carry from the mantissa gives the right exponent, up to infinity
      half = (size - (112U << 23U) + 0xfffU + (size >> 13U & 1U)) >> 13U;
    }
    bits = static_cast<std::uint16_t>(half | (wide >> 16U & 0x8000U));
  }
  SHOAL_FUNCTION operator float() const {
#if defined(__CUDA_ARCH__)
    if ((bits & 0x7fffU) <= 0x7c00U) {
      float value = 0.0F;
      asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
      return value;
    }
#endif
    const std::uint32_t sign = (bits & 0x8000U) << 16U, size = (bits & 0x7fffU) << 13U;
    std::uint32_t wide = size + (112U << 23U);
    if (size >= 0x7c00U << 13U) {
      wide = size | 0x7f800000U | (size > 0x7c00U << 13U ? 0x400000U : 0U);
    } else if (size < 0x400U << 13U) {  // subnormal: add 2^-14 as a bit pattern, subtract it as a number
      wide = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size + 0x38800000U) - 0x1p-14F);
    }
    return std::bit_cast<float>(sign | wide);
  }
};
static_assert(sizeof(f16) == 2);

template <typename T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<f16> = DType::f16;

constexpr std::size_t size_of(DType type) { return type == DType::f32 ? 4 : 2; }

/// Returns f(T{}) for the type T that `type` names.
template <class F>
decltype(auto) dispatch(DType type, F&& f) {
  if (type == DType::f16) return f(f16{});
  return type == DType::bf16 ? f(bf16{}) : f(float{});
}

/// The elements begin .. end-1.
struct Range {
  std::size_t begin = 0, end = 0;
  constexpr std::size_t size() const { return end - begin; }
  constexpr bool empty() const { return end == begin; }
  constexpr bool operator==(const Range&) const = default;
};

/// Returns the elements that both ranges contain; an empty range if there are none.
constexpr Range intersection(Range a, Range b) {
  const std::size_t begin = a.begin > b.begin ? a.begin : b.begin;
  const std::size_t end = a.end < b.end ? a.end : b.end;
  return {begin, end < begin ? begin : end};
}

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace shoal
