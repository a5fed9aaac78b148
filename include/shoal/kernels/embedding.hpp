// SPDX-License-Identifier: Apache-2.0
// Token and position embeddings, gathered and added in one pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// x[b, t, :] = wte[tokens[b, t], :] + wpe[t, :]. wpe may be null. tokens must be < the rows of wte (checked where they are
/// read).
template <typename T>
void embedding_forward(std::size_t B, std::size_t T_, std::size_t C, const std::int32_t* tokens, const T* wte, const T* wpe,
                       T* x);

/// dwte[tokens[b, t], :] += dx[b, t, :] in the order of (b, t), whatever the threads; dwpe[t, :] = sum over b (overwritten;
/// may be null).
template <typename T>
void embedding_backward(std::size_t B, std::size_t T_, std::size_t C, const std::int32_t* tokens, const T* dx, float* dwte,
                        float* dwpe);

}  // namespace shoal::kernels
