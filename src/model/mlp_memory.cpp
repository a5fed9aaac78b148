// SPDX-License-Identifier: Apache-2.0
// What an MLP, or a part of one, takes from memory.
#include <algorithm>
#include <type_traits>

#include "mlp.hpp"
#include "shoal/kernels/pointwise.hpp"

namespace shoal::model {

/// The output of a layer is the input of the next one. In a slot each segment has its own last output. The other ones are
/// shared by the segments, and by the slots that compute them again.
template <typename T>
void Mlp<T>::take_slots(Memory& memory) {
  const std::size_t B = capacity_.sequences;
  const auto take_output = [&] { return memory.take<T>(Kind::activations, B * options_.inner(), "hidden layers").data(); };
  const std::size_t slots = capacity_.training ? capacity_.part.slots : 1;
  std::vector<T*> shared(segments_.longest() - 1);
  for (std::size_t i = 0; i < slots; ++i) {
    Slot& slot = slots_.emplace_back();
    slot.whole = i < capacity_.part.whole_slots;
    if (part_.embedding) {
      slot.embedded = memory.take<T>(Kind::activations, B * capacity_.length * options_.n_embd, "embeddings").data();
    }
    if (i <= capacity_.part.whole_slots) {
      for (T*& output : shared) output = take_output();
    }
    for (std::size_t layer = 0; layer < part_.count(); ++layer) {
      const bool kept = segments_.is_last_of_segment(layer);
      slot.hidden.push_back(kept ? take_output() : shared[layer - segments_.first_of(layer)]);
    }
  }
}

template <typename T>
void Mlp<T>::take_head(Memory& memory) {
  const std::size_t B = capacity_.sequences, V = options_.vocab_size;
  logits_ = memory.take<float>(Kind::activations, B * V, "logits").data();
  losses_ = memory.take<float>(Kind::activations, B, "losses").data();
  if (!capacity_.training) return;
  if constexpr (std::is_same_v<T, float>) {
    dlogits_ = logits_;
  } else {
    dlogits_ = memory.take<T>(Kind::activations, B * V, "gradient of logits").data();
  }
}

/// The head makes the gradient of its input in the forward pass, so each slot has its own; backward continues in this
/// memory. Other parts get the gradient of their output from the next part.
template <typename T>
void Mlp<T>::take_gradients(Memory& memory) {
  const std::size_t B = capacity_.sequences, inner = options_.inner();
  const std::size_t widest = part_.embedding ? std::max(inner, capacity_.length * options_.n_embd) : inner;
  const auto take = [&] { return memory.take<T>(Kind::activations, B * widest, "gradients of hidden layers").data(); };
  if (part_.head) {
    for (Slot& slot : slots_) slot.gradient = take();
  } else {
    dx_ = take();
  }
  next_dx_ = take();
  std::size_t sums = kernels::column_sum_workspace_bytes({B, inner});
  if (part_.head) sums = std::max(sums, kernels::column_sum_workspace_bytes({B, options_.vocab_size}));
  workspace_ = memory.take<std::byte>(Kind::buffers, sums, "kernels' workspace");
}

template <typename T>
std::vector<kernels::Product> Mlp<T>::products_of(BatchSize size) const {
  const std::size_t inner = options_.inner(), skipped = first_row(size.length) * inner;
  const auto aligned = [&](std::size_t element_bytes) { return skipped * element_bytes % kernels::operand_alignment == 0; };
  const LinearShape first = {size.sequences, size.length * options_.n_embd, inner}, other = {size.sequences, inner, inner},
                    head = {size.sequences, inner, options_.vocab_size};
  const bool has_others = part_.count() > (part_.embedding ? 1U : 0U);
  std::vector<kernels::Product> list;
  list.reserve(9);
  if (part_.embedding) list_linear<T>(list, first, false, aligned(sizeof(T)));
  if (has_others) list_linear<T>(list, other);
  if (part_.head) {
    list.push_back(kernels::product<T, float>({.m = head.rows, .n = head.out, .k = head.in, .bias = true}));
  }
  if (!capacity_.training) return list;
  if (part_.embedding) {
    list_linear_input_gradient<T>(list, first, aligned(sizeof(T)));
    list_linear_weight_gradient<T>(list, first, aligned(sizeof(float)));
  }
  if (part_.head) {
    list_linear_input_gradient<T>(list, head);
    list_linear_weight_gradient<T>(list, head);
  }
  if (has_others) {
    list_linear_input_gradient<T>(list, other);
    list_linear_weight_gradient<T>(list, other);
  }
  return list;
}

#define SHOAL_INSTANTIATE(T)                     \
  template void Mlp<T>::take_slots(Memory&);     \
  template void Mlp<T>::take_head(Memory&);      \
  template void Mlp<T>::take_gradients(Memory&); \
  template std::vector<kernels::Product> Mlp<T>::products_of(BatchSize) const;
SHOAL_INSTANTIATE(float)
SHOAL_INSTANTIATE(bf16)
SHOAL_INSTANTIATE(f16)
#undef SHOAL_INSTANTIATE

}  // namespace shoal::model
