// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention.hpp"

#include "kernels/common/instances.hpp"

namespace shoal::kernels {

template <typename T>
std::size_t attention_workspace_bytes(const AttentionShape& shape) {
  return std::max(attention::forward_bytes<T>(shape), attention::backward_bytes<T>(shape)) *
         static_cast<std::size_t>(threads());
}

template <typename T>
std::vector<std::string> prepare_attention(const AttentionShape& /*shape*/, bool /*backward*/) {
  return {};
}

template <typename T>
void attention_forward(const AttentionShape& shape, const T* qkv, const AttentionOutputs<T>& out, const Dropout& dropout,
                       Span<std::byte> workspace) {
  attention::forward_by<T>(attention::backend<T>(), shape, qkv, out, dropout, workspace);
}

template <typename T>
void attention_backward(const AttentionShape& shape, const AttentionBackwardInputs<T>& in, T* dqkv, const Dropout& dropout,
                        Span<std::byte> workspace) {
  attention::backward_by<T>(attention::backend<T>(), shape, in, dqkv, dropout, workspace);
}

SHOAL_FOR_TYPES(attention_workspace_bytes);
SHOAL_FOR_TYPES(prepare_attention);
SHOAL_FOR_TYPES(attention_forward);
SHOAL_FOR_TYPES(attention_backward);

}  // namespace shoal::kernels
