// SPDX-License-Identifier: Apache-2.0
// The buffers for the activations of a GPT's blocks, and which blocks use the same ones.
#pragma once

#include <vector>

#include "block.hpp"
#include "segments.hpp"
#include "shoal/base/memory.hpp"

namespace shoal::model::gpt {

/// Takes the buffers of all blocks.
/// Training: each block of the last segment has its own buffers. The blocks of earlier segments use the same ones, except
/// that each segment has its own input. No training: segments have one block, and all blocks also use the same input, so
/// each block works in place. decoding: each block has its own keys and values.
template <typename T>
std::vector<BlockActivations<T>> take_blocks(const BlockShape& s, const Segments& segments, bool training, bool decoding,
                                             Memory& memory) {
  const std::size_t rows = s.rows();
  const auto take = [&](std::size_t elements, const char* label) {
    return memory.take<T>(Kind::activations, elements, label).data();
  };
  const auto statistics = [&](std::size_t elements) {
    return memory.take<float>(Kind::activations, elements, "statistics").data();
  };
  std::vector<BlockActivations<T>> blocks(segments.layers());
  const std::size_t last = segments.first_of_last_segment();
  for (std::size_t i = last; i < blocks.size(); ++i) {
    BlockActivations<T>& a = blocks[i];
    a.x = take(rows * s.C, "residual stream");
    a.x_mid = training ? take(rows * s.C, "residual stream") : a.x;
    a.qkv = take(rows * 3 * s.C, "keys and values");
    a.attention = take(rows * s.C, "attention outputs");
    a.u = take(rows * s.inner, "MLP pre-activations");
    a.logsumexp = statistics(s.B * s.NH * s.T);
    for (float** kept : {&a.mean_1, &a.rstd_1, &a.mean_2, &a.rstd_2}) *kept = statistics(rows);
  }
  for (std::size_t i = 0; i < last; ++i) {
    const std::size_t first = segments.first_of(i);
    blocks[i] = blocks[last + i - first];
    if (training && i == first) blocks[i].x = take(rows * s.C, "residual stream");
    if (decoding) blocks[i].qkv = take(rows * 3 * s.C, "keys and values");
  }
  return blocks;
}

}  // namespace shoal::model::gpt
