// SPDX-License-Identifier: Apache-2.0
// The portable kernels of attention by names of their own, for an implementation that also has others. What they compute and
// take is in include/shoal/kernels/attention.hpp.
#pragma once

#include "shoal/base/error.hpp"
#include "shoal/kernels/attention.hpp"

namespace shoal::kernels::portable {

/// Tiles of heads of so many channels fit a GPU's memory of a team (attention_tiles.hpp).
inline constexpr std::size_t longest_head = 1024;
/// Refuses longer ones, which no kernel of a GPU computes.
inline void check_head_size(const AttentionShape& shape) {
  const std::size_t head_size = shape.C / shape.NH;
  if (head_size <= longest_head) return;
  bad_input("model.n_embd = ", shape.C, ": with model.n_head = ", shape.NH, " heads have ", head_size,
            " channels; a GPU's attention takes at most ", longest_head);
}

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
