// SPDX-License-Identifier: Apache-2.0
// The portable kernels of attention by names of their own, for an implementation that also has others. What they compute and
// take is in include/shoal/kernels/attention.hpp.
#pragma once

#include "shoal/kernels/attention.hpp"

namespace shoal::kernels::portable {

/// Bytes of workspace of attention_backward(); attention_forward() needs none. The same for all types.
inline std::size_t attention_workspace_bytes(const AttentionShape& shape) {
  return shape.B * shape.NH * shape.T * sizeof(float);
}

template <typename T>
void attention_forward(const AttentionShape& shape, const T* qkv, const AttentionOutputs<T>& out, const Dropout& dropout);

template <typename T>
void attention_backward(const AttentionShape& shape, const AttentionBackwardInputs<T>& in, T* dqkv, const Dropout& dropout,
                        Span<std::byte> workspace);

}  // namespace shoal::kernels::portable
