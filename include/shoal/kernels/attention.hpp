// SPDX-License-Identifier: Apache-2.0
// Causal multi-head attention. Scores are computed tile by tile and never stored: forward saves only the logarithm of each
// row's sum of exponentials, and backward recomputes the scores (Dao et al. 2022, FlashAttention, Algorithms 1 and 4). Tiles
// above the diagonal are skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/kernels/dropout.hpp"

namespace shoal::kernels {

// B sequences, T positions, C = NH * HS channels, NH heads of size HS. A row of qkv [B, T, 3C] holds q of all heads, then k,
// then v.
struct AttentionShape {
  std::size_t B, T, C, NH;
};

/// Bytes of workspace, for all threads together, for forward or backward, whichever needs more.
template <typename T>
std::size_t attention_workspace_bytes(const AttentionShape& shape);

/// Makes what a library of GPUs needs for forward, and for backward if it is wanted, without dropout, so that no step has to
/// wait for it. Returns a line for each that is computed by portable kernels since the library cannot; none where there is
/// no library.
template <typename T>
std::vector<std::string> prepare_attention(const AttentionShape& shape, bool backward);

template <typename T>
struct AttentionOutputs {
  T* out;            ///< [B, T, C]
  float* logsumexp;  ///< [B, NH, T], saved for backward
};
/// out = softmax(q k' / sqrt(HS), causal) v, for each head. With dropout, probabilities are dropped and scaled: the one of
/// (b, head, row, column) is kept if dropout_keep() of sample first_sample + b and element (head * T + row) * T + column.
template <typename T>
void attention_forward(const AttentionShape& shape, const T* qkv, const AttentionOutputs<T>& out, const Dropout& dropout,
                       Span<std::byte> workspace);

template <typename T>
struct AttentionBackwardInputs {
  const T* qkv;
  const T* out;            ///< as forward computed it
  const float* logsumexp;  ///< as forward saved it
  const T* dout;           ///< [B, T, C]
};
/// dqkv [B, T, 3C] is overwritten.
template <typename T>
void attention_backward(const AttentionShape& shape, const AttentionBackwardInputs<T>& in, T* dqkv, const Dropout& dropout,
                        Span<std::byte> workspace);

template <typename T>
struct KeyValueCache {
  const T *keys, *values;  ///< [length, NH * HS], with `stride` elements from one position to the next
  std::size_t stride, length;
};
/// Generation: attention of one new position of one sequence to all positions of the cache. q and out are [NH * HS].
template <typename T>
void attention_decode(std::size_t heads, std::size_t head_size, const T* q, const KeyValueCache<T>& cache, T* out);

}  // namespace shoal::kernels
