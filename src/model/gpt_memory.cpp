// SPDX-License-Identifier: Apache-2.0
// What a GPT, or a part of one, takes from memory.
#include <algorithm>

#include "gpt.hpp"
#include "gpt_layout.hpp"
#include "shoal/base/bump_allocator.hpp"

namespace shoal::model {

template <typename T>
void Gpt<T>::take_activations(Memory& memory) {
  const gpt::BlockShape s = shape(capacity_.sequences, capacity_.length);
  const bool training = capacity_.training;
  if (training) {
    slots_ = gpt::take_slots<T>(s, segments_, capacity_.part, part_.embedding, memory);
    unkept_ = slots_.front().blocks.front();
  } else {
    slots_.emplace_back();
    unkept_ = gpt::take_segment<T>(s, 1, false, memory).blocks.front();
  }
  for (std::size_t i = 0; i < segments_.layers(); ++i) {
    const bool own = decoding_ && i < segments_.first_of_last_segment();
    keys_and_values_.push_back(own        ? gpt::take_keys_and_values<T>(s, memory)
                               : training ? slots_.front().blocks[i].qkv
                                          : unkept_.qkv);
  }
  if (part_.head) final_ = gpt::take_stream<T>(s, memory);
  if (part_.is_whole() && options_.direct) {
    embedded_ = training ? slots_.front().inputs[0] : gpt::take_stream<T>(s, memory);
  }
  if (training) take_gradients(memory);
  const std::size_t tokens = s.rows() * ((part_.embedding ? 1U : 0U) + (part_.head ? 1U : 0U));
  if (tokens > 0) tokens_ = TokenBuffer(memory, tokens, slots_.size(), capacity_.micro_batches);
  if (!part_.head) return;
  for (float** kept : {&final_mean_, &final_rstd_, &losses_}) {
    *kept = memory.take<float>(Kind::activations, s.rows(), "statistics").data();
  }
}

/// The head makes the gradient of its input in the forward pass, so each slot has its own. Other parts get it from the next
/// one, and all but the embedding's part write that of their input to the border. Likewise the gradient through a direct
/// connection has memory of its own only if it crosses no border.
template <typename T>
void Gpt<T>::take_gradients(Memory& memory) {
  const auto take = [&] {
    const std::size_t elements = capacity_.sequences * capacity_.length * options_.n_embd;
    return memory.take<T>(Kind::activations, elements, "gradient of the residual stream").data();
  };
  if (part_.head) {
    for (Slot& slot : slots_) {
      slot.gradient = take();
      if (part_.embedding && options_.direct) slot.direct_gradient = take();
    }
  } else if (part_.embedding) {
    dx_ = take();
  }
}

template <typename T>
void Gpt<T>::take_scratch(Memory& memory) {
  const gpt::BlockShape s = shape(capacity_.sequences, capacity_.length);
  const std::size_t rows = s.rows();
  const bool training = capacity_.training;
  scratch_.h = memory.take<T>(Kind::activations, rows * s.C, "scratch of a block").data();
  if (training && options_.dropout > 0) {
    scratch_.branch = memory.take<T>(Kind::activations, rows * s.C, "scratch of a block").data();
  }
  // The head never runs at the same time as a block, so its chunk of logits uses the memory of the largest scratch buffers.
  const auto divide = [&](BumpAllocator buffers) {
    scratch_.wide_b = buffers.take<T>(rows * s.inner);
    if (training) {
      scratch_.wide_a = buffers.take<T>(rows * std::max(s.inner, 3 * s.C));
      scratch_.dh = buffers.take<T>(rows * s.C);
    }
    return buffers.used();
  };
  const std::size_t shared = std::max(divide(BumpAllocator()), part_.head ? head_.scratch_bytes() : 0);
  head_scratch_ = memory.take<std::byte>(Kind::activations, shared, "scratch of a block, or a chunk of logits");
  if (!memory.counting()) divide(BumpAllocator(head_scratch_));
  scratch_.workspace =
      memory.take<std::byte>(Kind::buffers, gpt::block_workspace_bytes<T>(s, training), "kernels' workspace");
  const BatchSize capacity = {capacity_.sequences, capacity_.length};
  product_workspace_ = ProductWorkspace(memory, capacity, products_of(capacity, decoding_));
}

template <typename T>
std::vector<kernels::Product> Gpt<T>::products_of(BatchSize size, bool decoding) const {
  const gpt::BlockShape s = shape(size.sequences, size.length);
  std::vector<kernels::Product> list =
      gpt::block_products<T>(s, {.training = capacity_.training, .dropout = options_.dropout > 0, .decoding = decoding});
  const auto add = [&](const std::vector<kernels::Product>& more) { list.insert(list.end(), more.begin(), more.end()); };
  if (part_.head) add(head_.losses_products(s.rows()));
  if (part_.is_whole()) add(head_.logits_products(size.sequences));
  if (decoding && size.sequences > 1) add(head_.logits_products(1));
  return list;
}

#define SHOAL_INSTANTIATE(T)                       \
  template void Gpt<T>::take_activations(Memory&); \
  template void Gpt<T>::take_gradients(Memory&);   \
  template void Gpt<T>::take_scratch(Memory&);     \
  template std::vector<kernels::Product> Gpt<T>::products_of(BatchSize, bool) const;
SHOAL_INSTANTIATE(float)
SHOAL_INSTANTIATE(bf16)
SHOAL_INSTANTIATE(f16)
#undef SHOAL_INSTANTIATE

}  // namespace shoal::model
