// SPDX-License-Identifier: Apache-2.0
// Logits of a GPT, and the decoder that caches keys and values.
#include "gpt.hpp"
#include "shoal/base/error.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::model {

template <typename T>
void Gpt<T>::logits(const MicroBatch& batch, Span<float> out) {
  require(part_.is_whole(), "logits of a part of a model");
  require(out.size() == batch.sequences * options_.vocab_size, "room for ", out.size(), " logits of ", batch.sequences,
          " sequences");
  set_product_workspace(batch);
  const std::size_t stride = batch.length * options_.n_embd;
  const T* const x = run_blocks(batch, {});
  keep_last_embedded(batch);
  logits_of(batch.sequences, x + stride - options_.n_embd, stride, out.data());
}

template <typename T>
void Gpt<T>::prefill(Span<const std::int32_t> tokens, Span<float> out) {
  logits({1, tokens.size(), tokens, {}, 0, 0}, out);
  decoded_ = tokens.size();
}

template <typename T>
void Gpt<T>::decode(std::int32_t token, Span<float> out) {
  require(decoded_ > 0 && decoded_ < capacity_.length, "position ", decoded_, " of a sequence of up to ", capacity_.length);
  const gpt::BlockShape s = shape(1, 1);
  scratch_.product_workspace = product_workspace_.planned();
  T* const x = final_;
  tokens_.next(1).front() = token;
  embed(1, 1, tokens_.upload(0), decoded_, x);
  if (options_.direct) kernels::copy_bytes(s.C * sizeof(T), x, embedded_);
  for (std::size_t i = 0; i < segments_.layers(); ++i) {
    const int unit = block_unit(i);
    const TracedUnit traced(unit);
    const Weights<T> w(access_, unit, block_layout(i));
    gpt::block_decode(s, w, unkept(i), scratch_, decoded_, x);
  }
  logits_of(1, x, s.C, out.data());
  ++decoded_;
}

#define SHOAL_INSTANTIATE(T)                                            \
  template void Gpt<T>::logits(const MicroBatch&, Span<float>);         \
  template void Gpt<T>::prefill(Span<const std::int32_t>, Span<float>); \
  template void Gpt<T>::decode(std::int32_t, Span<float>);
SHOAL_INSTANTIATE(float)
SHOAL_INSTANTIATE(bf16)
SHOAL_INSTANTIATE(f16)
#undef SHOAL_INSTANTIATE

}  // namespace shoal::model
