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
void attention_forward(const AttentionShape& shape, const T* qkv, const AttentionOutputs<T>& out, const Dropout& dropout,
                       Span<std::byte> workspace) {
  attention::forward_by<T>(attention::backend<T>(), shape, qkv, out, dropout, workspace);
}

template <typename T>
void attention_backward(const AttentionShape& shape, const AttentionBackwardInputs<T>& in, T* dqkv, const Dropout& dropout,
                        Span<std::byte> workspace) {
  attention::backward_by<T>(attention::backend<T>(), shape, in, dqkv, dropout, workspace);
}

#define SHOAL_INSTANCE(T)                                                                                           \
  template void attention_forward<T>(const AttentionShape&, const T*, const AttentionOutputs<T>&, const Dropout&,   \
                                     Span<std::byte>);                                                              \
  template void attention_backward<T>(const AttentionShape&, const AttentionBackwardInputs<T>&, T*, const Dropout&, \
                                      Span<std::byte>);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
