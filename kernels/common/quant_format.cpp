// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/quant_format.hpp"

#include "shoal/base/error.hpp"

namespace shoal::kernels {

std::string problem_of(const QuantFormat& format) {
  if (format.bits != 8 && format.bits != 4) return text("quantization to ", format.bits, " bits; allowed: 8, 4");
  if (format.block == 0 || format.block > longest_quant_block) {
    return text("a quantization block of ", format.block, " elements; allowed: 1 to ", longest_quant_block);
  }
  if (format.bits == 4 && format.block % 2 != 0) {
    const std::string below = format.block > 1 ? text(format.block - 1, ", ") : "";
    return text("INT4 packs two elements in a byte: a quantization block of ", format.block, " is odd; nearest: ", below,
                format.block + 1);
  }
  return {};
}

void check_quantization(const QuantFormat& format, Span<const QuantTerm> terms) {
  const std::string problem = problem_of(format);
  require(problem.empty(), problem);
  require(!terms.empty(), "a sum of no terms was to be quantized");
  for (const QuantTerm& term : terms) {
    const std::string other = term.values == nullptr ? problem_of({term.bits, format.block}) : "";
    require(other.empty(), other);
  }
}

}  // namespace shoal::kernels
