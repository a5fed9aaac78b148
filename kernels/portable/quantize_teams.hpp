// SPDX-License-Identifier: Apache-2.0
// Quantization by a team for each block, of any length.
#pragma once

#include "kernels/portable/quantize_terms.hpp"

namespace shoal::kernels::portable {

/// Bytes of scratch memory for the sum of a block.
inline std::size_t scratch_for(std::size_t n, std::size_t block) {
  return round_up(n < block ? n : block, sum_granule) * sizeof(float);
}

template <class Code>
void quantize_as(const Code& code, std::size_t n, const Terms& terms, float* residual, std::byte* out) {
  const std::size_t block = code.block;
  for_teams(
      "quantize", blocks_in(n, block), scratch_for(n, block), SHOAL_LAMBDA(std::size_t index, const Team& team) {
        auto* const sum = reinterpret_cast<float*>(team.scratch());
        const Range range = range_of_block(n, block, index);
        const std::size_t count = range.size();
        float* const kept = residual == nullptr ? nullptr : residual + range.begin;
        add_terms(team, code, n, terms, index, sum);
        if (kept != nullptr) {
          team.each(count, [=](std::size_t i) { sum[i] += kept[i]; });
          team.sync();
        }
        const auto to = block_of<Code::bits>(out, n, block, index);
        const std::uint32_t scales = encode(team, code, sum, count, to.codes);
        if (team.thread() == 0) store_scales(to.scales, scales);
        if (kept == nullptr || typename Code::Decoder(scales).overflowed()) return;
        decode<Decode::subtract>(team, code, scales, to.codes, count, sum);
        team.sync();
        team.each(count, [=](std::size_t i) { kept[i] = sum[i]; });
      });
}

template <class Code, typename T>
void dequantize_as(const Code& code, std::size_t n, const Terms& terms, T* y) {
  const std::size_t block = code.block;
  for_teams(
      "dequantize", blocks_in(n, block), scratch_for(n, block), SHOAL_LAMBDA(std::size_t index, const Team& team) {
        auto* const sum = reinterpret_cast<float*>(team.scratch());
        const Range range = range_of_block(n, block, index);
        add_terms(team, code, n, terms, index, sum);
        T* const to = y + range.begin;
        team.each(range.size(), [=](std::size_t i) { to[i] = T(sum[i]); });
      });
}

}  // namespace shoal::kernels::portable
