// SPDX-License-Identifier: Apache-2.0
#include "mlp.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

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
constexpr int first_hidden = 1;
enum : std::size_t { weight, bias };  // indices of the parameters of a hidden layer and of the head

}  // namespace

namespace mlp {

std::vector<UnitLayout> layout(const ModelOptions& o) {
  // He et al. (2015): so a layer with ReLU does not change the variance of the signal.
  const auto deviation = [](std::size_t inputs) { return std::sqrt(2.0F / static_cast<float>(inputs)); };
  std::vector<UnitLayout> units;
  UnitLayout embedding{"embedding", {}, 0};
  embedding.add("embedding.weight", {o.vocab_size, o.n_embd}, 1);
  units.push_back(embedding);
  std::size_t inputs = o.block_size * o.n_embd;
  for (std::size_t i = 0; i < o.n_layer; ++i) {
    const std::string name = text("hidden.", i);
    UnitLayout hidden{name, {}, 0};
    hidden.add(name + ".weight", {inputs, o.inner()}, deviation(inputs));
    hidden.add(name + ".bias", {o.inner()}, 0);
    units.push_back(hidden);
    inputs = o.inner();
  }
  UnitLayout head{"head", {}, 0};
  head.add("head.weight", {inputs, o.vocab_size}, 1.0F / std::sqrt(static_cast<float>(inputs)));
  head.add("head.bias", {o.vocab_size}, 0);
  units.push_back(head);
  return units;
}

Segments segments(const ModelOptions& o, const Capacity& capacity) {
  return {o.n_layer, capacity.training ? capacity.checkpoint_interval : 0};
}

std::vector<std::vector<int>> use_order(const ModelOptions& o, const Capacity& capacity) {
  return use_order_of(segments(o, capacity), {static_cast<int>(o.n_layer) + 1}, capacity.training);
}

std::vector<std::string> problems(const ModelOptions& o) {
  if (o.dropout == 0) return {};
  return {text("model.dropout = ", o.dropout, ": model.kind = mlp has no dropout; allowed: 0")};
}

}  // namespace mlp

template <typename T>
Mlp<T>::Mlp(const ModelOptions& options, const Capacity& capacity, std::uint64_t, Memory& memory, UnitAccess& access)
    : options_(options),
      capacity_(capacity),
      access_(access),
      units_(mlp::layout(options)),
      segments_(mlp::segments(options, capacity)) {
  require(capacity.length <= options.block_size, "a sequence of ", capacity.length,
          " for model.block_size = ", options.block_size);
  const std::size_t B = capacity.sequences, V = options.vocab_size;
  const std::size_t widest = std::max(options.inner(), capacity.length * options.n_embd);
  const auto take = [&](std::size_t elements, const char* label) {
    return memory.take<T>(Kind::activations, elements, label).data();
  };
  embedded_ = take(B * capacity.length * options.n_embd, "embeddings");
  // The output of a layer is the input of the next one. Each segment has its own last output; the other ones are shared.
  std::vector<T*> shared(segments_.longest() - 1);
  for (T*& output : shared) output = take(B * options.inner(), "hidden layers");
  for (std::size_t i = 0; i < options.n_layer; ++i) {
    const bool kept = segments_.is_last_of_segment(i);
    hidden_.push_back(kept ? take(B * options.inner(), "hidden layers") : shared[i - segments_.first_of(i)]);
  }
  logits_ = memory.take<float>(Kind::activations, B * V, "logits").data();
  losses_ = memory.take<float>(Kind::activations, B, "losses").data();
  tokens_ = TokenBuffer(memory, B * (capacity.length + 1), capacity.micro_batches);
  if (capacity.training) {
    dx_ = take(B * widest, "gradients of hidden layers");
    next_dx_ = take(B * widest, "gradients of hidden layers");
    if constexpr (std::is_same_v<T, float>) {
      dlogits_ = logits_;
    } else {
      dlogits_ = take(B * V, "gradient of logits");
    }
    const std::size_t sums =
        std::max(kernels::column_sum_workspace_bytes({B, V}), kernels::column_sum_workspace_bytes({B, options.inner()}));
    workspace_ = memory.take<std::byte>(Kind::buffers, sums, "kernels' workspace");
  }
  const BatchSize whole = {B, capacity.length};
  product_workspace_ = ProductWorkspace(memory, whole, products_of(whole));
}

template <typename T>
std::vector<kernels::Product> Mlp<T>::products_of(BatchSize size) const {
  const std::size_t inner = options_.inner(), skipped = first_row(size.length) * inner;
  const auto aligned = [&](std::size_t element_bytes) { return skipped * element_bytes % kernels::operand_alignment == 0; };
  const LinearShape first = {size.sequences, size.length * options_.n_embd, inner}, other = {size.sequences, inner, inner},
                    head = {size.sequences, inner, options_.vocab_size};
  std::vector<kernels::Product> list;
  list_linear<T>(list, first, false, aligned(sizeof(T)));
  if (options_.n_layer > 1) list_linear<T>(list, other);
  list.push_back(kernels::product<T, float>({.m = head.rows, .n = head.out, .k = head.in, .bias = true}));
  if (capacity_.training) {
    list_linear_input_gradient<T>(list, first, aligned(sizeof(T)));
    list_linear_weight_gradient<T>(list, first, aligned(sizeof(float)));
    list_linear_input_gradient<T>(list, head);
    list_linear_weight_gradient<T>(list, head);
    if (options_.n_layer > 1) {
      list_linear_input_gradient<T>(list, other);
      list_linear_weight_gradient<T>(list, other);
    }
  }
  return list;
}

template <typename T>
void Mlp<T>::set_product_workspace(const MicroBatch& batch) {
  products_ = product_workspace_.of({batch.sequences, batch.length}, [this](BatchSize size) { return products_of(size); });
}

template <typename T>
void Mlp<T>::check(const MicroBatch& batch) const {
  require(
      batch.sequences > 0 && batch.length > 0 && batch.sequences <= capacity_.sequences && batch.length <= capacity_.length,
      "a micro-batch of ", batch.sequences, " x ", batch.length, " tokens for a model made for ", capacity_.sequences, " x ",
      capacity_.length);
  require(batch.inputs.size() >= batch.sequences * batch.length, "a micro-batch of ", batch.sequences, " x ", batch.length,
          " tokens has ", batch.inputs.size(), " inputs");
}

template <typename T>
const T* Mlp<T>::run_hidden(const MicroBatch& batch) {
  {
    const TracedUnit traced(embedding_unit);
    const Weights<T> w(access_, embedding_unit, units_[embedding_unit]);
    kernels::embedding_forward<T>({batch.sequences, batch.length, options_.n_embd}, inputs_,
                                  {.token = w[weight], .position = nullptr}, embedded_);
  }
  for (std::size_t i = 0; i < hidden_.size(); ++i) hidden_forward(batch, i);
  return hidden_.back();
}

template <typename T>
void Mlp<T>::hidden_forward(const MicroBatch& batch, std::size_t layer) {
  const int unit = first_hidden + static_cast<int>(layer);
  const std::size_t inner = options_.inner();
  const T* const x = layer == 0 ? embedded_ : hidden_[layer - 1];
  const std::size_t inputs = layer == 0 ? batch.length * options_.n_embd : inner;
  const std::size_t skipped = layer == 0 ? first_row(batch.length) * inner : 0;
  const TracedUnit traced(unit);
  const Weights<T> w(access_, unit, units_[first_hidden + layer]);
  linear<T>("hidden", {.rows = batch.sequences, .in = inputs, .out = inner},
            {.x = x, .weight = w[weight] + skipped, .bias = w[bias]}, hidden_[layer], products_);
  kernels::relu_forward(batch.sequences * inner, hidden_[layer]);
}

template <typename T>
void Mlp<T>::check_targets(const MicroBatch& batch) const {
  require(batch.targets.size() >= batch.sequences * batch.length, "a micro-batch of ", batch.sequences, " x ", batch.length,
          " tokens has ", batch.targets.size(), " targets");
}

template <typename T>
void Mlp<T>::upload(const MicroBatch& batch) {
  const std::size_t inputs = batch.sequences * batch.length, targets = batch.targets.empty() ? 0 : batch.sequences;
  const Span<std::int32_t> staging = tokens_.next(inputs + targets);
  std::copy_n(batch.inputs.begin(), inputs, staging.begin());
  for (std::size_t b = 0; b < targets; ++b) staging[inputs + b] = batch.targets[(b + 1) * batch.length - 1];
  inputs_ = tokens_.upload();
  targets_ = inputs_ + inputs;
}

template <typename T>
void Mlp<T>::output(const Weights<T>& w, std::size_t rows, const T* hidden, float* logits) {
  const std::size_t inner = options_.inner(), V = options_.vocab_size;
  kernels::matmul<T, float>("head", {.a = {hidden, rows, inner}, .b = {w[weight], inner, V}, .bias = w[bias]},
                            {logits, rows, V}, products_);
}

template <typename T>
void Mlp<T>::forward(const MicroBatch& batch, float gradient_scale, double* loss) {
  require(capacity_.training, "the model was made without memory for backward");
  check(batch);
  set_product_workspace(batch);
  const std::size_t rows = batch.sequences;
  check_targets(batch);
  kept_ = batch;
  upload(batch);
  const T* const hidden = run_hidden(kept_);
  const TracedUnit traced(head_unit());
  const Weights<T> w(access_, head_unit(), units_.back());
  output(w, rows, hidden, logits_);
  kernels::cross_entropy<T>({rows, options_.vocab_size},
                            {.logits = logits_, .targets = targets_, .stride = options_.vocab_size}, gradient_scale,
                            {.losses = losses_, .dlogits = dlogits_});
  kernels::sum(rows, losses_, loss);
  head_backward(w, rows, hidden);
}

template <typename T>
void Mlp<T>::head_backward(const Weights<T>& w, std::size_t rows, const T* hidden) {
  const std::size_t inner = options_.inner(), V = options_.vocab_size;
  const Gradient g(access_, head_unit(), units_.back());
  const LinearShape shape{.rows = rows, .in = inner, .out = V};
  linear_weight_gradient<T>("head_dw", shape, hidden, dlogits_, g[weight], products_);
  kernels::column_sum({rows, V}, dlogits_, g[bias], workspace_);
  linear_input_gradient<T>("head_dx", shape, dlogits_, w[weight], dx_, products_);
  access_.gradient_complete(head_unit());
}

template <typename T>
void Mlp<T>::hidden_backward(std::size_t rows, std::size_t layer) {
  const int unit = first_hidden + static_cast<int>(layer);
  const std::size_t inner = options_.inner();
  const std::size_t inputs = layer == 0 ? kept_.length * options_.n_embd : inner;
  const std::size_t skipped = layer == 0 ? first_row(kept_.length) * inner : 0;
  const TracedUnit traced(unit);
  const Weights<T> w(access_, unit, units_[first_hidden + layer]);
  const Gradient g(access_, unit, units_[first_hidden + layer]);
  kernels::relu_backward(rows * inner, hidden_[layer], dx_, dx_);
  kernels::fill(skipped, 0.0F, g[weight]);
  const LinearShape shape{.rows = rows, .in = inputs, .out = inner};
  linear_weight_gradient<T>("hidden_dw", shape, layer == 0 ? embedded_ : hidden_[layer - 1], dx_, g[weight] + skipped,
                            products_);
  kernels::column_sum({rows, inner}, dx_, g[bias], workspace_);
  linear_input_gradient<T>("hidden_dx", shape, dx_, w[weight] + skipped, next_dx_, products_);
  std::swap(dx_, next_dx_);
  access_.gradient_complete(unit);
}

template <typename T>
void Mlp<T>::backward() {
  set_product_workspace(kept_);
  const auto again = [&](std::size_t layer) {
    const trace::Region region(trace::Level::steps, trace::Kind::phase, "recompute");
    hidden_forward(kept_, layer);
  };
  // The output of the last layer of a segment is saved, so it is never computed again.
  segments_.backward(again, [&](std::size_t layer, bool) { hidden_backward(kept_.sequences, layer); });
  const TracedUnit traced(embedding_unit);
  const Gradient g(access_, embedding_unit, units_[embedding_unit]);
  kernels::fill(options_.vocab_size * options_.n_embd, 0.0F, g[weight]);
  kernels::embedding_backward<T>({kept_.sequences, kept_.length, options_.n_embd}, inputs_, dx_,
                                 {.token = g[weight], .position = nullptr});
  access_.gradient_complete(embedding_unit);
}

template <typename T>
void Mlp<T>::evaluate(const MicroBatch& batch, double* loss) {
  check(batch);
  check_targets(batch);
  upload(batch);
  set_product_workspace(batch);
  const T* const hidden = run_hidden(batch);
  const TracedUnit traced(head_unit());
  output(Weights<T>(access_, head_unit(), units_.back()), batch.sequences, hidden, logits_);
  kernels::cross_entropy_forward({batch.sequences, options_.vocab_size},
                                 {.logits = logits_, .targets = targets_, .stride = options_.vocab_size}, losses_);
  kernels::sum(batch.sequences, losses_, loss);
}

template <typename T>
void Mlp<T>::logits(const MicroBatch& batch, Span<float> out) {
  require(out.size() == batch.sequences * options_.vocab_size, "room for ", out.size(), " logits of ", batch.sequences,
          " sequences");
  check(batch);
  upload(batch);
  set_product_workspace(batch);
  const T* const hidden = run_hidden(batch);
  const TracedUnit traced(head_unit());
  output(Weights<T>(access_, head_unit(), units_.back()), batch.sequences, hidden, logits_);
  device::copy(out.size_bytes(), logits_, out.data());
  device::wait_for_queue();
}

template class Mlp<float>;
template class Mlp<bf16>;
template class Mlp<f16>;

}  // namespace shoal::model
