// SPDX-License-Identifier: Apache-2.0
// Token and position embeddings, looked up and added in one pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

// B sequences, T positions, C channels; tokens [B, T]; x [B, T, C].
struct EmbeddingShape {
  std::size_t B, T, C;
};
template <typename T>
struct EmbeddingTables {
  const T* token;     ///< [V, C]; all tokens must be less than V, which is checked where they are read from the data
  const T* position;  ///< [T, C]; null: none
};
/// x[b, t, :] = token[tokens[b, t], :] + position[t, :].
template <typename T>
void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens, const EmbeddingTables<T>& tables, T* x);

struct EmbeddingGradients {
  float* token;     ///< [V, C]; the gradient is added to it
  float* position;  ///< [T, C], overwritten; null: none
};
/// gradients.token[tokens[b, t], :] += dx[b, t, :] in the order of (b, t), whatever the number of threads;
/// gradients.position[t, :] = sum of dx[b, t, :] over b.
template <typename T>
void embedding_backward(const EmbeddingShape& shape, const std::int32_t* tokens, const T* dx,
                        const EmbeddingGradients& gradients);

}  // namespace shoal::kernels
