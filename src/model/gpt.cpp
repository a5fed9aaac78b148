// SPDX-License-Identifier: Apache-2.0
// A GPT, its forward pass, and evaluation.
#include "gpt.hpp"

#include <algorithm>

#include "gpt_layout.hpp"
#include "shoal/base/error.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/embedding.hpp"

namespace shoal::model {

namespace {

constexpr std::uint64_t dropout_stream = 0xC3A5C85C97CB3127U;  // differs from the streams of initial values and sampling

// The places in a unit at which elements are dropped (kernels::Dropout::site is 8 times the unit plus this).
enum DropoutSite : std::uint32_t { probabilities = 0, attention_out = 1, mlp_out = 2, embedded = 0 };

}  // namespace

template <typename T>
Gpt<T>::Gpt(const ModelOptions& options, const Capacity& capacity, std::uint64_t seed, Memory& memory, UnitAccess& access)
    : options_(options),
      capacity_(capacity),
      part_(gpt::part_layers(options, capacity)),
      segments_(gpt::segments(options, capacity)),
      decoding_(part_.is_whole() && (capacity.decoding || (capacity.training && segments_.longest() == options.n_layer))),
      dropout_key_(seed ^ dropout_stream),
      access_(access),
      units_(gpt::layout(options)),
      head_(capacity.sequences * capacity.length, options.n_embd,
            {.symbols = options.vocab_size, .rows = gpt::vocabulary_rows(options)},
            {.training = capacity.training, .direct = options.direct}) {
  require(capacity.length <= options.block_size, "a sequence of ", capacity.length,
          " for model.block_size = ", options.block_size);
  require(!options.joins_gradients() || part_.is_whole(),
          "model.tied_gradient = joined in a part of a model: the head uses the embedding's weight, and both write one "
          "gradient, so they must be in the same part; allowed: apart");
  require(!options.joins_gradients() || capacity.part.slots == 1, "model.tied_gradient = joined with ", capacity.part.slots,
          " micro-batches between forward and backward: the head's forward pass begins the embedding's gradient, so there "
          "can be only one; allowed: apart");
  take_activations(memory);
  take_scratch(memory);
}

template <typename T>
void Gpt<T>::set_product_workspace(const MicroBatch& batch) {
  scratch_.product_workspace =
      product_workspace_.of({batch.sequences, batch.length}, [this](BatchSize size) { return products_of(size, false); });
}

template <typename T>
gpt::BlockShape Gpt<T>::shape(std::size_t sequences, std::size_t length) const {
  return {sequences,           length,           options_.n_embd,
          options_.n_head,     options_.inner(), static_cast<float>(options_.layer_norm_epsilon),
          capacity_.fused_gelu};
}

template <typename T>
kernels::Dropout Gpt<T>::dropout(const MicroBatch& batch, int unit, std::uint32_t site) const {
  return {static_cast<float>(options_.dropout), dropout_key_, batch.step, batch.first_sample,
          static_cast<std::uint32_t>(unit) * 8 + site};
}

template <typename T>
kernels::Dropout Gpt<T>::embedding_dropout(const MicroBatch& batch) const {
  return dropout(batch, embedding_unit, embedded);
}

template <typename T>
gpt::BlockDropout Gpt<T>::block_dropout(const MicroBatch& batch, int unit) const {
  return {dropout(batch, unit, probabilities), dropout(batch, unit, attention_out), dropout(batch, unit, mlp_out)};
}

template <typename T>
void Gpt<T>::check(const MicroBatch& batch, const Flow& flow) const {
  const std::size_t rows = batch.sequences * batch.length;
  require(rows > 0 && batch.sequences <= capacity_.sequences && batch.length <= capacity_.length, "a micro-batch of ",
          batch.sequences, " x ", batch.length, " tokens for a model made for ", capacity_.sequences, " x ",
          capacity_.length);
  require(!part_.embedding || batch.inputs.size() >= rows, "a micro-batch of ", batch.sequences, " x ", batch.length,
          " tokens has ", batch.inputs.size(), " inputs");
  check_forward(part_, flow);
}

template <typename T>
void Gpt<T>::check_targets(const MicroBatch& batch) const {
  const std::size_t rows = predictions(batch);
  require(!part_.head || batch.targets.size() >= rows, "a micro-batch of ", rows, " tokens has ", batch.targets.size(),
          " targets");
}

template <typename T>
void Gpt<T>::upload(std::size_t slot, const MicroBatch& batch) {
  if (!part_.embedding && !part_.head) return;
  const std::size_t inputs = part_.embedding ? predictions(batch) : 0;
  const std::size_t targets = part_.head ? std::min(predictions(batch), batch.targets.size()) : 0;
  const Span<std::int32_t> staging = tokens_.next(inputs + targets);
  std::copy_n(batch.inputs.begin(), inputs, staging.begin());
  std::copy_n(batch.targets.begin(), targets, staging.begin() + static_cast<std::ptrdiff_t>(inputs));
  slots_[slot].tokens = tokens_.upload(slot);
  slots_[slot].targets = slots_[slot].tokens + inputs;
}

template <typename T>
void Gpt<T>::embed(std::size_t sequences, std::size_t length, const std::int32_t* tokens, std::size_t first_position, T* x) {
  const TracedUnit traced(embedding_unit);
  const Weights<T> w(access_, embedding_unit, units_[embedding_unit]);
  const T* const positions = w[gpt::embedding::position] + first_position * options_.n_embd;
  kernels::embedding_forward<T>({sequences, length, options_.n_embd}, tokens,
                                {.token = w[gpt::embedding::token], .position = positions}, x);
}

template <typename T>
void Gpt<T>::forward(std::size_t index, const MicroBatch& batch, const Flow& flow, float gradient_scale, double* loss) {
  require(capacity_.training, "the model was made without memory for backward");
  check(batch, flow);
  check_skip(part_, flow, options_.direct, Pass::forward);
  check_targets(batch);
  Slot& slot = slots_.at(index);
  upload(index, batch);
  slot.batch = batch;
  const gpt::BlockShape s = shape(batch.sequences, batch.length);
  set_product_workspace(batch);
  if (part_.embedding) {
    T* const x = slot.inputs[0];
    embed(s.B, s.T, slot.tokens, 0, x);
    const kernels::Dropout at_start = embedding_dropout(batch);
    if (at_start.active()) kernels::dropout_add<T>(at_start, s.B, s.T * s.C, x, nullptr, x);
    skip(batch, x, flow);
  } else {
    slot.blocks[0].x = static_cast<const T*>(flow.in);
  }
  T* const last_output = part_.head ? final_ : static_cast<T*>(flow.out);
  for (std::size_t i = 0; i < slot.blocks.size(); ++i) {
    const int unit = block_unit(i);
    const TracedUnit traced(unit);
    const Weights<T> w(access_, unit, block_layout(i));
    T* const out = i + 1 < slot.blocks.size() ? slot.inputs[i + 1] : last_output;
    gpt::block_forward(s, w, slot.blocks[i], scratch_, block_dropout(batch, unit), out);
  }
  if (!part_.head) return;
  Direct direct;
  if (options_.direct) {
    direct = part_.embedding ? Direct{slot.inputs[0], slot.direct_gradient}
                             : Direct{static_cast<const T*>(flow.skip_in), static_cast<T*>(flow.skip_out)};
  }
  head(slot, s.rows(), final_, direct, gradient_scale, loss);
}

template <typename T>
void Gpt<T>::skip(const MicroBatch& batch, const T* x, const Flow& flow) {
  if (flow.skip_out != nullptr) kernels::copy_bytes(border_elements(batch) * sizeof(T), x, flow.skip_out);
}

template <typename T>
gpt::BlockActivations<T> Gpt<T>::unkept(std::size_t i) const {
  gpt::BlockActivations<T> a = unkept_;
  a.qkv = keys_and_values_[i];
  return a;
}

template <typename T>
T* Gpt<T>::run_blocks(const MicroBatch& batch, const Flow& flow) {
  check(batch, flow);
  upload(0, batch);
  const gpt::BlockShape s = shape(batch.sequences, batch.length);
  T* const x = part_.head ? final_ : static_cast<T*>(flow.out);
  const T* first_input = part_.embedding ? x : static_cast<const T*>(flow.in);
  if (part_.embedding) {
    // The blocks work in place, so a direct connection needs the embeddings elsewhere.
    T* const to = embedded_ != nullptr ? embedded_ : x;
    embed(s.B, s.T, slots_.front().tokens, 0, to);
    skip(batch, to, flow);
    first_input = to;
  }
  for (std::size_t i = 0; i < segments_.layers(); ++i) {
    const int unit = block_unit(i);
    const TracedUnit traced(unit);
    const Weights<T> w(access_, unit, block_layout(i));
    gpt::BlockActivations<T> a = unkept(i);
    a.x = i == 0 ? first_input : x;
    a.x_mid = x;
    gpt::block_forward(s, w, a, scratch_, {}, x);
  }
  return x;
}

template <typename T>
void Gpt<T>::evaluate(const MicroBatch& batch, const Flow& flow, double* loss) {
  check_targets(batch);
  check_skip(part_, flow, options_.direct, Pass::evaluation);
  set_product_workspace(batch);
  const T* const x = run_blocks(batch, flow);
  if (!part_.head) return;
  const Direct direct{part_.embedding ? embedded_ : static_cast<const T*>(flow.skip_in)};
  head(slots_.front(), predictions(batch), x, direct, std::nullopt, loss);
}

template class Gpt<float>;
template class Gpt<bf16>;
template class Gpt<f16>;

}  // namespace shoal::model
