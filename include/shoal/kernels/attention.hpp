// SPDX-License-Identifier: Apache-2.0
// Causal multi-head attention with the scores computed tile by tile and never stored: forward keeps only the logarithm of
// each row's sum of exponentials, backward recomputes (Dao et al. 2022, FlashAttention, Algorithms 1 and 4). Tiles above the
// diagonal are skipped.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/kernels/dropout.hpp"

namespace shoal::kernels {

// B sequences, T positions, C = NH * HS channels, NH heads of size HS.
//   qkv [B, T, 3C]: row = q (all heads), k, v        out [B, T, C]        logsumexp [B, NH, T] float
struct AttentionShape {
  std::size_t B, T, C, NH;
};

/// Bytes of workspace that forward or backward need, whichever is more (all threads together).
template <typename T>
std::size_t attention_workspace_bytes(const AttentionShape& shape);

/// out = softmax(q k' / sqrt(HS), causal) v per head. With dropout, probabilities are dropped and scaled; the mask of
/// (b, head, row, column) is dropout_keep() of sample first_sample + b, element (head * T + row) * T + column.
template <typename T>
void attention_forward(const AttentionShape& shape, const T* qkv, T* out, float* logsumexp, const Dropout& dropout,
                       Span<std::byte> workspace);

/// dqkv (overwritten) from dout. out, logsumexp: as forward left them.
template <typename T>
void attention_backward(const AttentionShape& shape, const T* qkv, const T* out, const float* logsumexp, const T* dout,
                        T* dqkv, const Dropout& dropout, Span<std::byte> workspace);

/// One new position per sequence against a cache (generation): q [NH * HS]; keys, values [length, NH * HS] with
/// `stride` elements between positions; out [NH * HS].
template <typename T>
void attention_decode(std::size_t heads, std::size_t head_size, std::size_t length, const T* q, const T* keys,
                      const T* values, std::size_t stride, T* out);

}  // namespace shoal::kernels
