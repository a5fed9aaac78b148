// SPDX-License-Identifier: Apache-2.0
// The public functions, where there are no other kernels than the portable ones.
#include "kernels/portable/attention.hpp"

#include "kernels/common/instances.hpp"
#include "kernels/portable/launch.hpp"

namespace shoal::kernels {

template <typename T>
std::size_t attention_workspace_bytes(const AttentionShape& shape) {
  return portable::attention_workspace_bytes(shape);
}

template <typename T>
std::vector<std::string> prepare_attention(const AttentionShape& shape, bool /*backward*/) {
  if (!portable::on_host) portable::check_head_size(shape);
  return {};
}

template <typename T>
void attention_forward(const AttentionShape& shape, const T* qkv, const AttentionOutputs<T>& out, const Dropout& dropout,
                       Span<std::byte> /*workspace*/) {
  portable::attention_forward(shape, qkv, out, dropout);
}

template <typename T>
void attention_backward(const AttentionShape& shape, const AttentionBackwardInputs<T>& in, T* dqkv, const Dropout& dropout,
                        Span<std::byte> workspace) {
  portable::attention_backward(shape, in, dqkv, dropout, workspace);
}

SHOAL_FOR_TYPES(attention_workspace_bytes);
SHOAL_FOR_TYPES(prepare_attention);
SHOAL_FOR_TYPES(attention_forward);
SHOAL_FOR_TYPES(attention_backward);

}  // namespace shoal::kernels
