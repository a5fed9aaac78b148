// SPDX-License-Identifier: Apache-2.0
// Softmax and cross-entropy of rows of logits. Loss and gradient are computed in one pass, since the logits are not kept.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/types.hpp"
#include "shoal/kernels/rows.hpp"

namespace shoal::kernels {

/// For rows of C symbols.
struct CrossEntropyInputs {
  const float* logits;          ///< [rows, stride]; the first C of each row are used
  const std::int32_t* targets;  ///< [rows]
  std::size_t stride;           ///< at least C
};
/// losses[r] = -ln softmax(logits[r, :])[targets[r]], in float.
void cross_entropy_forward(RowShape shape, const CrossEntropyInputs& in, float* losses);

template <typename T>
struct CrossEntropyOutputs {
  float* losses;  ///< [rows]
  T* dlogits;     ///< [rows, stride]; may be the logits if T is float, otherwise it must not overlap them
};
/// The same losses, and dlogits = (softmax - onehot) * scale, which is 0 from element C of each row on.
template <typename T>
void cross_entropy(RowShape shape, const CrossEntropyInputs& in, float scale, const CrossEntropyOutputs<T>& out);

}  // namespace shoal::kernels
