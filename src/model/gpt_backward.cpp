// SPDX-License-Identifier: Apache-2.0
// The backward pass of a GPT.
#include "gpt.hpp"
#include "gpt_layout.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/embedding.hpp"
#include "shoal/kernels/pointwise.hpp"

namespace shoal::model {

template <typename T>
void Gpt<T>::backward(std::size_t index, const Flow& flow) {
  check_backward(part_, flow);
  check_skip(part_, flow, options_.direct, Pass::backward);
  const Slot& slot = slots_.at(index);
  const gpt::BlockShape s = shape(slot.batch.sequences, slot.batch.length);
  set_product_workspace(slot.batch);
  const T* dy = part_.head ? slot.gradient : static_cast<const T*>(flow.in);
  T* const dx = !part_.embedding ? static_cast<T*>(flow.out) : part_.head ? slot.gradient : dx_;
  const auto again = [&](std::size_t i) {
    const TracedUnit traced(block_unit(i));
    const Weights<T> w(access_, block_unit(i), block_layout(i));
    recompute(slot, s, w, i, slot.inputs[i + 1]);
  };
  segments_.backward(slot.whole, again, [&](std::size_t i, bool first_again) {
    block_backward(slot, s, i, first_again, dy, dx);
    dy = dx;
  });
  if (part_.embedding) embedding_backward(slot, dx, part_.head ? slot.direct_gradient : static_cast<const T*>(flow.skip_in));
}

template <typename T>
void Gpt<T>::recompute(const Slot& slot, const gpt::BlockShape& s, const Weights<T>& w, std::size_t i, T* out) {
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "recompute");
  gpt::block_forward(s, w, slot.blocks[i], scratch_, block_dropout(slot.batch, block_unit(i)), out);
}

template <typename T>
void Gpt<T>::block_backward(const Slot& slot, const gpt::BlockShape& s, std::size_t i, bool again, const T* dy, T* dx) {
  const int unit = block_unit(i);
  const TracedUnit traced(unit);
  const Weights<T> w(access_, unit, block_layout(i));
  if (again) recompute(slot, s, w, i, nullptr);
  const Gradient g(access_, unit, block_layout(i));
  gpt::block_backward(s, w, g, slot.blocks[i], scratch_, block_dropout(slot.batch, unit), dy, dx);
  access_.gradient_complete(unit);
}

template <typename T>
void Gpt<T>::embedding_backward(const Slot& slot, T* dx, const T* direct_dx) {
  const MicroBatch& batch = slot.batch;
  const std::size_t C = options_.n_embd;
  const TracedUnit traced(embedding_unit);
  const Gradient g(access_, embedding_unit, units_[embedding_unit]);
  if (direct_dx != nullptr) kernels::add<T>(border_elements(batch), direct_dx, dx);
  const kernels::Dropout at_start = embedding_dropout(batch);
  if (at_start.active()) kernels::dropout_backward<T>(at_start, batch.sequences, batch.length * C, dx, dx);
  float* const dwte = g[gpt::embedding::token];
  float* const dwpe = g[gpt::embedding::position];
  if (!options_.joins_gradients()) kernels::fill(options_.vocab_size * C, 0.0F, dwte);
  kernels::embedding_backward<T>({batch.sequences, batch.length, C}, slot.tokens, dx, {.token = dwte, .position = dwpe});
  kernels::fill((options_.block_size - batch.length) * C, 0.0F, dwpe + batch.length * C);
  access_.gradient_complete(embedding_unit);
}

#define SHOAL_INSTANTIATE(T)                                                                                  \
  template void Gpt<T>::backward(std::size_t, const Flow&);                                                   \
  template void Gpt<T>::recompute(const Slot&, const gpt::BlockShape&, const Weights<T>&, std::size_t, T*);   \
  template void Gpt<T>::block_backward(const Slot&, const gpt::BlockShape&, std::size_t, bool, const T*, T*); \
  template void Gpt<T>::embedding_backward(const Slot&, T*, const T*);
SHOAL_INSTANTIATE(float)
SHOAL_INSTANTIATE(bf16)
SHOAL_INSTANTIATE(f16)
#undef SHOAL_INSTANTIATE

}  // namespace shoal::model
