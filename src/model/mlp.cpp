// SPDX-License-Identifier: Apache-2.0
#include "mlp.hpp"

#include <algorithm>
#include <utility>

#include "products.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/cross_entropy.hpp"
#include "shoal/kernels/embedding.hpp"
#include "shoal/kernels/pointwise.hpp"
#include "shoal/kernels/reduce.hpp"

namespace shoal::model {

namespace {

constexpr int embedding_unit = 0;
enum : std::size_t { weight, bias };  // indices of the parameters of a hidden layer and of the head

}  // namespace

template <typename T>
Mlp<T>::Mlp(const ModelOptions& options, const Capacity& capacity, std::uint64_t, Memory& memory, UnitAccess& access)
    : options_(options),
      capacity_(capacity),
      part_(layers_of(capacity.part, options.n_layer)),
      access_(access),
      units_(mlp::layout(options)),
      segments_(mlp::segments(options, capacity)) {
  require(capacity.length <= options.block_size, "a sequence of ", capacity.length,
          " for model.block_size = ", options.block_size);
  take_slots(memory);
  if (part_.head) take_head(memory);
  const std::size_t tokens = capacity.sequences * ((part_.embedding ? capacity.length : 0) + (part_.head ? 1 : 0));
  if (tokens > 0) tokens_ = TokenBuffer(memory, tokens, slots_.size(), capacity.micro_batches);
  if (capacity.training) take_gradients(memory);
  const BatchSize whole = {capacity.sequences, capacity.length};
  product_workspace_ = ProductWorkspace(memory, whole, products_of(whole));
}

template <typename T>
void Mlp<T>::set_product_workspace(const MicroBatch& batch) {
  products_ = product_workspace_.of({batch.sequences, batch.length}, [this](BatchSize size) { return products_of(size); });
}

template <typename T>
void Mlp<T>::check(const MicroBatch& batch, const Flow& flow) const {
  require(
      batch.sequences > 0 && batch.length > 0 && batch.sequences <= capacity_.sequences && batch.length <= capacity_.length,
      "a micro-batch of ", batch.sequences, " x ", batch.length, " tokens for a model made for ", capacity_.sequences, " x ",
      capacity_.length);
  require(!part_.embedding || batch.inputs.size() >= batch.sequences * batch.length, "a micro-batch of ", batch.sequences,
          " x ", batch.length, " tokens has ", batch.inputs.size(), " inputs");
  check_forward(part_, flow);
}

/// The output crosses the border as a copy: its ReLU's backward needs it, too.
template <typename T>
const T* Mlp<T>::run_hidden(Slot& slot, const MicroBatch& batch, const Flow& flow) {
  if (part_.embedding) {
    const TracedUnit traced(embedding_unit);
    const Weights<T> w(access_, embedding_unit, units_[embedding_unit]);
    kernels::embedding_forward<T>({batch.sequences, batch.length, options_.n_embd}, slot.tokens,
                                  {.token = w[weight], .position = nullptr}, slot.embedded);
  }
  slot.input = part_.embedding ? slot.embedded : static_cast<const T*>(flow.in);
  for (std::size_t i = 0; i < part_.count(); ++i) hidden_forward(slot, batch, i);
  if (!part_.head) kernels::copy_bytes(border_elements(batch) * sizeof(T), slot.hidden.back(), flow.out);
  return slot.hidden.back();
}

template <typename T>
void Mlp<T>::hidden_forward(const Slot& slot, const MicroBatch& batch, std::size_t layer) {
  const int unit = hidden_unit(layer);
  const std::size_t inner = options_.inner();
  const T* const x = layer == 0 ? slot.input : slot.hidden[layer - 1];
  const std::size_t inputs = is_first(layer) ? batch.length * options_.n_embd : inner;
  const std::size_t skipped = is_first(layer) ? first_row(batch.length) * inner : 0;
  const TracedUnit traced(unit);
  const Weights<T> w(access_, unit, hidden_layout(layer));
  linear<T>("hidden", {.rows = batch.sequences, .in = inputs, .out = inner},
            {.x = x, .weight = w[weight] + skipped, .bias = w[bias]}, slot.hidden[layer], products_);
  kernels::relu_forward(batch.sequences * inner, slot.hidden[layer]);
}

template <typename T>
void Mlp<T>::check_targets(const MicroBatch& batch) const {
  require(!part_.head || batch.targets.size() >= batch.sequences * batch.length, "a micro-batch of ", batch.sequences, " x ",
          batch.length, " tokens has ", batch.targets.size(), " targets");
}

template <typename T>
void Mlp<T>::upload(std::size_t slot, const MicroBatch& batch) {
  if (!part_.embedding && !part_.head) return;
  const std::size_t inputs = part_.embedding ? batch.sequences * batch.length : 0;
  const std::size_t targets = part_.head && !batch.targets.empty() ? batch.sequences : 0;
  const Span<std::int32_t> staging = tokens_.next(inputs + targets);
  std::copy_n(batch.inputs.begin(), inputs, staging.begin());
  for (std::size_t b = 0; b < targets; ++b) staging[inputs + b] = batch.targets[(b + 1) * batch.length - 1];
  slots_[slot].tokens = tokens_.upload(slot);
  slots_[slot].targets = slots_[slot].tokens + inputs;
}

template <typename T>
void Mlp<T>::output(const Weights<T>& w, std::size_t rows, const T* hidden, float* logits) {
  const std::size_t inner = options_.inner(), V = options_.vocab_size;
  kernels::matmul<T, float>("head", {.a = {hidden, rows, inner}, .b = {w[weight], inner, V}, .bias = w[bias]},
                            {logits, rows, V}, products_);
}

template <typename T>
void Mlp<T>::forward(std::size_t index, const MicroBatch& batch, const Flow& flow, float gradient_scale, double* loss) {
  require(capacity_.training, "the model was made without memory for backward");
  check(batch, flow);
  set_product_workspace(batch);
  const std::size_t rows = batch.sequences;
  check_targets(batch);
  Slot& slot = slots_.at(index);
  slot.batch = batch;
  upload(index, batch);
  const T* const hidden = run_hidden(slot, batch, flow);
  if (!part_.head) return;
  const TracedUnit traced(head_unit());
  const Weights<T> w(access_, head_unit(), units_.back());
  output(w, rows, hidden, logits_);
  kernels::cross_entropy<T>({rows, options_.vocab_size},
                            {.logits = logits_, .targets = slot.targets, .stride = options_.vocab_size}, gradient_scale,
                            {.losses = losses_, .dlogits = dlogits_});
  kernels::sum(rows, losses_, loss);
  head_backward(w, rows, hidden, slot.gradient);
}

template <typename T>
void Mlp<T>::head_backward(const Weights<T>& w, std::size_t rows, const T* hidden, T* dx) {
  const std::size_t inner = options_.inner(), V = options_.vocab_size;
  const Gradient g(access_, head_unit(), units_.back());
  const LinearShape shape{.rows = rows, .in = inner, .out = V};
  linear_weight_gradient<T>("head_dw", shape, hidden, dlogits_, g[weight], products_);
  kernels::column_sum({rows, V}, dlogits_, g[bias], workspace_);
  linear_input_gradient<T>("head_dx", shape, dlogits_, w[weight], dx, products_);
  access_.gradient_complete(head_unit());
}

template <typename T>
void Mlp<T>::hidden_backward(const Slot& slot, std::size_t layer, const HiddenGradients& gradients) {
  const MicroBatch& batch = slot.batch;
  const int unit = hidden_unit(layer);
  const std::size_t rows = batch.sequences, inner = options_.inner();
  const std::size_t inputs = is_first(layer) ? batch.length * options_.n_embd : inner;
  const std::size_t skipped = is_first(layer) ? first_row(batch.length) * inner : 0;
  const TracedUnit traced(unit);
  const Weights<T> w(access_, unit, hidden_layout(layer));
  const Gradient g(access_, unit, hidden_layout(layer));
  const T* const du = gradients.u;
  kernels::relu_backward(rows * inner, slot.hidden[layer], gradients.y, gradients.u);
  kernels::fill(skipped, 0.0F, g[weight]);
  const LinearShape shape{.rows = rows, .in = inputs, .out = inner};
  linear_weight_gradient<T>("hidden_dw", shape, layer == 0 ? slot.input : slot.hidden[layer - 1], du, g[weight] + skipped,
                            products_);
  kernels::column_sum({rows, inner}, du, g[bias], workspace_);
  linear_input_gradient<T>("hidden_dx", shape, du, w[weight] + skipped, gradients.x, products_);
  access_.gradient_complete(unit);
}

template <typename T>
void Mlp<T>::backward(std::size_t index, const Flow& flow) {
  check_backward(part_, flow);
  const Slot& slot = slots_.at(index);
  set_product_workspace(slot.batch);
  const auto again = [&](std::size_t layer) {
    const trace::Region region(trace::Level::steps, trace::Kind::phase, "recompute");
    hidden_forward(slot, slot.batch, layer);
  };
  const T* dy = part_.head ? slot.gradient : static_cast<const T*>(flow.in);
  T *free = part_.head ? slot.gradient : dx_, *other = next_dx_;
  segments_.backward(slot.whole, again, [&](std::size_t layer, bool) {
    T* const dx = layer == 0 && !part_.embedding ? static_cast<T*>(flow.out) : other;
    hidden_backward(slot, layer, {.y = dy, .u = free, .x = dx});
    dy = dx;
    std::swap(free, other);
  });
  if (part_.embedding) embedding_backward(slot, dy);
}

template <typename T>
void Mlp<T>::embedding_backward(const Slot& slot, const T* dx) {
  const TracedUnit traced(embedding_unit);
  const Gradient g(access_, embedding_unit, units_[embedding_unit]);
  kernels::fill(options_.vocab_size * options_.n_embd, 0.0F, g[weight]);
  kernels::embedding_backward<T>({slot.batch.sequences, slot.batch.length, options_.n_embd}, slot.tokens, dx,
                                 {.token = g[weight], .position = nullptr});
  access_.gradient_complete(embedding_unit);
}

template <typename T>
void Mlp<T>::evaluate(const MicroBatch& batch, const Flow& flow, double* loss) {
  check(batch, flow);
  check_targets(batch);
  Slot& slot = slots_.front();
  upload(0, batch);
  set_product_workspace(batch);
  const T* const hidden = run_hidden(slot, batch, flow);
  if (!part_.head) return;
  const TracedUnit traced(head_unit());
  output(Weights<T>(access_, head_unit(), units_.back()), batch.sequences, hidden, logits_);
  kernels::cross_entropy_forward({batch.sequences, options_.vocab_size},
                                 {.logits = logits_, .targets = slot.targets, .stride = options_.vocab_size}, losses_);
  kernels::sum(batch.sequences, losses_, loss);
}

template <typename T>
void Mlp<T>::logits(const MicroBatch& batch, Span<float> out) {
  require(part_.is_whole(), "logits of a part of a model");
  require(out.size() == batch.sequences * options_.vocab_size, "room for ", out.size(), " logits of ", batch.sequences,
          " sequences");
  check(batch, {});
  upload(0, batch);
  set_product_workspace(batch);
  const T* const hidden = run_hidden(slots_.front(), batch, {});
  const TracedUnit traced(head_unit());
  output(Weights<T>(access_, head_unit(), units_.back()), batch.sequences, hidden, logits_);
  device::copy(out.size_bytes(), logits_, out.data());
  device::wait_for_queue();
}

template class Mlp<float>;
template class Mlp<bf16>;
template class Mlp<f16>;

}  // namespace shoal::model
