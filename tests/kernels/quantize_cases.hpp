// SPDX-License-Identifier: Apache-2.0
// Common to the tests of quantization: formats, elements, and codes extracted from their bytes.
#pragma once

#include <string>
#include <vector>

#include "kernel_test.hpp"
#include "shoal/base/error.hpp"
#include "shoal/kernels/quantize.hpp"

namespace shoal::kernels::test {

using Rounding = QuantRounding;

inline std::vector<QuantFormat> formats() {
  std::vector<QuantFormat> all;
  for (const Rounding rounding : {Rounding::accurate, Rounding::deepspeed}) {
    for (const int bits : {8, 4}) {
      for (const std::size_t block : {2U, 8U, 30U, 64U, 256U, 2000U}) all.push_back({bits, block, rounding});
    }
  }
  all.push_back({8, 33, Rounding::accurate});
  all.push_back({8, 33, Rounding::deepspeed});
  return all;
}

inline std::string name_of(const QuantFormat& f) {
  return text("INT", f.bits, " in blocks of ", f.block, f.rounding == Rounding::accurate ? "" : " as DeepSpeed");
}

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes quantized(const QuantFormat& format, const std::vector<T>& x) {
  Bytes bytes(quantized_bytes(x.size(), format));
  quantize(format, dtype_of<T>, x.size(), x.data(), bytes.data());
  return bytes;
}
template <typename T = float>
std::vector<T> dequantized(const QuantFormat& format, std::size_t n, const Bytes& bytes) {
  std::vector<T> y(n);
  dequantize(format, dtype_of<T>, n, bytes.data(), y.data());
  return y;
}

/// The parts of the error of `bytes`, which holds the elements x.
template <typename T>
std::vector<QuantError> error_parts(const QuantFormat& format, const std::vector<T>& x, const Bytes& bytes) {
  std::vector<QuantError> parts(quant_error_parts);
  add_quantization_error(format, dtype_of<T>, x.size(), x.data(), bytes.data(), parts.data());
  return parts;
}
template <typename T>
QuantError error_of(const QuantFormat& format, const std::vector<T>& x, const Bytes& bytes) {
  QuantError sum;
  for (const QuantError& part : error_parts(format, x, bytes)) sum += part;
  return sum;
}

inline int code_at(const QuantFormat& format, std::size_t n, const Bytes& bytes, std::size_t i) {
  const std::size_t scales = (n + format.block - 1) / format.block * sizeof(float);
  if (format.bits == 8) return static_cast<std::int8_t>(bytes[scales + i]);
  const auto both = static_cast<unsigned>(bytes[scales + i / 2]);
  const int code = static_cast<int>(i % 2 == 0 ? both >> 4U : both & 15U);
  return code < 8 ? code : code - 16;
}

/// About normal numbers; every hundredth is ten times as large.
inline std::vector<float> gradient_like(std::size_t n, std::uint64_t stream) {
  std::vector<float> x = numbers(n, stream, -1.0F, 1.0F);
  for (std::uint64_t more = 1; more < 6; ++more) {
    const auto others = numbers(n, stream + 1000 * more, -1.0F, 1.0F);
    for (std::size_t i = 0; i < n; ++i) x[i] += others[i];
  }
  for (std::size_t i = 37; i < n; i += 100) x[i] *= 10.0F;
  return x;
}

inline constexpr std::size_t sizes[] = {0, 1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 16385, 40'001};

}  // namespace shoal::kernels::test
