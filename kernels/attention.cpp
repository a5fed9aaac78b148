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

}  // namespace shoal::kernels
