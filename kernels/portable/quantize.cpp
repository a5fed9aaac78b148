// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/quantize.hpp"

#include "kernels/portable/quantize_teams.hpp"

namespace shoal::kernels {

using namespace portable;

void quantize(const QuantFormat& format, std::size_t n, Span<const QuantTerm> terms, float* residual, std::byte* out) {
  check_quantization(format, terms);
  with_code(format, [&](const auto& code) { quantize_as(code, n, Terms(terms), residual, out); });
}

void dequantize(const QuantFormat& format, std::size_t n, Span<const QuantTerm> terms, DType type, void* y) {
  check_quantization(format, terms);
  with_rounding(format, [&](const auto& code) {
    dispatch(type, [&]<typename T>(T) { dequantize_as(code, n, Terms(terms), static_cast<T*>(y)); });
  });
}

}  // namespace shoal::kernels
