// SPDX-License-Identifier: Apache-2.0
#include "kernels/portable/quantize_teams.hpp"
#include "shoal/kernels/quantize.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

/// Lanes in which squares are summed: element i of a vector of sixteen is in lane i mod 8. In each lane the squares of
/// elements i and i + 8 are added first, then their sum is added to those of the vectors before. (The vectors' lanes of
/// kernels/cpu are added in this order.)
constexpr std::size_t lanes = 8;

/// The sum of squares of n floats in scratch memory, to all threads. n is a multiple of sixteen. Waits for the other
/// threads.
SHOAL_FUNCTION double sum_of_squares(const Team& team, const float* x, std::size_t n, double* sums) {
  team.sync();
  team.each(lanes, [=](std::size_t l) { sums[l] = 0.0; });
  for (std::size_t i = 0; i < n; i += 2 * lanes) {
    team.each(lanes, [=](std::size_t l) {
      const double a = x[i + l], b = x[i + lanes + l];
      sums[l] += a * a + b * b;
    });
  }
  team.sync();
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/// A team goes through the blocks of one part.
template <class Code>
void errors_as(const Code& code, std::size_t n, const Terms& x, const std::byte* quantized, QuantError* parts) {
  const std::size_t sums_at = scratch_for(n, code.block), bytes = sums_at + lanes * sizeof(double);
  for_teams(
      "add_quantization_error", smaller(blocks_in(n, code.block), quant_error_parts), bytes,
      SHOAL_LAMBDA(std::size_t part, const Team& team) {
        auto* const error = reinterpret_cast<float*>(team.scratch());
        auto* const sums = reinterpret_cast<double*>(team.scratch() + sums_at);
        const std::size_t blocks = blocks_in(n, code.block);
        for (std::size_t index = part; index < blocks; index += quant_error_parts) {
          const std::size_t count = range_of_block(n, code.block, index).size(), padded = round_up(count, sum_granule);
          add_terms(team, code, n, x, index, error);
          const double values = sum_of_squares(team, error, padded, sums);
          const auto from = block_of<Code::bits>(quantized, n, code.block, index);
          decode<Decode::subtract>(team, code, load_scales(from.scales), from.codes, count, error);
          const double errors = sum_of_squares(team, error, padded, sums);
          if (team.thread() == 0) {
            parts[part].values += values;
            parts[part].errors += errors;
          }
        }
      });
}

}  // namespace

void add_quantization_error(const QuantFormat& format, DType type, std::size_t n, const void* x, const std::byte* quantized,
                            QuantError* parts) {
  const QuantTerm term = QuantTerm::of(type, x);
  check_quantization(format, {&term, 1});
  with_code(format, [&](const auto& code) { errors_as(code, n, Terms({&term, 1}), quantized, parts); });
}

}  // namespace shoal::kernels
