// SPDX-License-Identifier: Apache-2.0
// Softmax and cross-entropy of a block of rows, loss and gradient in one pass over logits that are gone afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// losses[r] = -ln softmax(logits[r, :])[targets[r]] in float.
void cross_entropy_forward(std::size_t rows, std::size_t V, const float* logits, const std::int32_t* targets, float* losses);

/// The same, and dlogits = (softmax - onehot) * scale. dlogits may be logits where T is float; a bf16 dlogits is another
/// buffer.
template <typename T>
void cross_entropy(std::size_t rows, std::size_t V, const float* logits, const std::int32_t* targets, float scale,
                   float* losses, T* dlogits);

}  // namespace shoal::kernels
