// SPDX-License-Identifier: Apache-2.0
// The number types and small value types that everything is written in.
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

/// Storage types of parameters and activations.
enum class DType : std::uint8_t { f32, bf16 };

/// The upper half of a float: 8 bits of exponent, 7 of mantissa. Converted by rounding to nearest even; NaN stays NaN.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  SHOAL_FUNCTION explicit bf16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const bool nan = (wide & 0x7fffffffU) > 0x7f800000U;
    bits = nan ? static_cast<std::uint16_t>((wide >> 16U) | 0x40U)
               : static_cast<std::uint16_t>((wide + 0x7fffU + ((wide >> 16U) & 1U)) >> 16U);
  }
  SHOAL_FUNCTION operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }
};
static_assert(sizeof(bf16) == 2);

template <typename T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;

constexpr std::size_t size_of(DType type) { return type == DType::f32 ? 4 : 2; }
constexpr const char* name_of(DType type) { return type == DType::f32 ? "fp32" : "bf16"; }

/// f(T{}) with the T that the type names.
template <class F>
decltype(auto) dispatch(DType type, F&& f) {
  return type == DType::bf16 ? f(bf16{}) : f(float{});
}

/// Elements begin .. end-1.
struct Range {
  std::size_t begin = 0, end = 0;
  constexpr std::size_t size() const { return end - begin; }
  constexpr bool empty() const { return end == begin; }
  constexpr bool operator==(const Range&) const = default;
};

/// What two ranges have in common; empty where that is nothing.
constexpr Range intersection(Range a, Range b) {
  const std::size_t begin = a.begin > b.begin ? a.begin : b.begin;
  const std::size_t end = a.end < b.end ? a.end : b.end;
  return {begin, end < begin ? begin : end};
}

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace shoal
