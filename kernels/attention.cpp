// SPDX-License-Identifier: Apache-2.0
#include "attention.hpp"

namespace shoal::kernels {

template <typename T>
std::size_t attention_workspace_bytes(const AttentionShape& shape) {
  return std::max(attention::forward_bytes<T>(shape), attention::backward_bytes<T>(shape)) *
         static_cast<std::size_t>(threads());
}
template std::size_t attention_workspace_bytes<float>(const AttentionShape&);
template std::size_t attention_workspace_bytes<bf16>(const AttentionShape&);
template std::size_t attention_workspace_bytes<f16>(const AttentionShape&);

template <typename T>
void attention_forward(const AttentionShape& shape, const T* qkv, T* out, float* logsumexp, const Dropout& dropout,
                       Span<std::byte> workspace) {
  attention::forward_by<T>(attention::unit<T>(), shape, qkv, out, logsumexp, dropout, workspace);
}
template void attention_forward<float>(const AttentionShape&, const float*, float*, float*, const Dropout&, Span<std::byte>);
template void attention_forward<bf16>(const AttentionShape&, const bf16*, bf16*, float*, const Dropout&, Span<std::byte>);
template void attention_forward<f16>(const AttentionShape&, const f16*, f16*, float*, const Dropout&, Span<std::byte>);

template <typename T>
void attention_backward(const AttentionShape& shape, const T* qkv, const T* out, const float* logsumexp, const T* dout,
                        T* dqkv, const Dropout& dropout, Span<std::byte> workspace) {
  attention::backward_by<T>(attention::unit<T>(), shape, qkv, out, logsumexp, dout, dqkv, dropout, workspace);
}
template void attention_backward<float>(const AttentionShape&, const float*, const float*, const float*, const float*,
                                        float*, const Dropout&, Span<std::byte>);
template void attention_backward<bf16>(const AttentionShape&, const bf16*, const bf16*, const float*, const bf16*, bf16*,
                                       const Dropout&, Span<std::byte>);
template void attention_backward<f16>(const AttentionShape&, const f16*, const f16*, const float*, const f16*, f16*,
                                      const Dropout&, Span<std::byte>);

}  // namespace shoal::kernels
