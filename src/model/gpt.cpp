// SPDX-License-Identifier: Apache-2.0
#include "gpt.hpp"

#include <algorithm>

#include "gpt_activations.hpp"
#include "gpt_layout.hpp"
#include "products.hpp"
#include "shoal/base/bump_allocator.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/embedding.hpp"
#include "shoal/kernels/layernorm.hpp"
#include "shoal/kernels/reduce.hpp"

namespace shoal::model {

namespace {

constexpr int embedding_unit = 0;
constexpr std::uint64_t dropout_stream = 0xC3A5C85C97CB3127U;  // differs from the streams of initial values and sampling

// The places in a unit at which elements are dropped (kernels::Dropout::site is 8 times the unit plus this).
enum DropoutSite : std::uint32_t { probabilities = 0, attention_out = 1, mlp_out = 2, embedded = 0 };

}  // namespace

template <typename T>
Gpt<T>::Gpt(const ModelOptions& options, const Capacity& capacity, std::uint64_t seed, Memory& memory, UnitAccess& access)
    : options_(options),
      capacity_(capacity),
      segments_(gpt::segments(options, capacity)),
      decoding_(capacity.decoding || (capacity.training && segments_.longest() == options.n_layer)),
      dropout_key_(seed ^ dropout_stream),
      access_(access),
      units_(gpt::layout(options)),
      head_(capacity.sequences * capacity.length, options.n_embd,
            {.symbols = options.vocab_size, .rows = gpt::vocabulary_rows(options)}, capacity.training) {
  require(capacity.length <= options.block_size, "a sequence of ", capacity.length,
          " for model.block_size = ", options.block_size);
  take_activations(memory);
  take_scratch(memory);
}

template <typename T>
void Gpt<T>::take_activations(Memory& memory) {
  const gpt::BlockShape s = shape(capacity_.sequences, capacity_.length);
  const std::size_t rows = s.rows();
  const auto take = [&](std::size_t elements, const char* label) {
    return memory.take<T>(Kind::activations, elements, label).data();
  };
  const auto statistics = [&](std::size_t elements, const char* label) {
    return memory.take<float>(Kind::activations, elements, label).data();
  };
  blocks_ = gpt::take_blocks<T>(s, segments_, capacity_.training, decoding_, memory);
  final_ = capacity_.training ? take(rows * s.C, "residual stream") : blocks_[0].x;
  if (capacity_.training) {
    dx_ = take(rows * s.C, "gradient of the residual stream");
  }
  tokens_ = TokenBuffer(memory, 2 * rows, capacity_.micro_batches);
  for (float** kept : {&final_mean_, &final_rstd_, &losses_}) *kept = statistics(rows, "statistics");
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
  const std::size_t shared = std::max(divide(BumpAllocator()), head_.scratch_bytes());
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
  add(head_.losses_products(s.rows()));
  add(head_.logits_products(size.sequences));
  if (decoding && size.sequences > 1) add(head_.logits_products(1));
  return list;
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
gpt::BlockDropout Gpt<T>::block_dropout(const MicroBatch& batch, int unit) const {
  return {dropout(batch, unit, probabilities), dropout(batch, unit, attention_out), dropout(batch, unit, mlp_out)};
}

template <typename T>
void Gpt<T>::check(const MicroBatch& batch) const {
  const std::size_t rows = batch.sequences * batch.length;
  require(rows > 0 && batch.sequences <= capacity_.sequences && batch.length <= capacity_.length, "a micro-batch of ",
          batch.sequences, " x ", batch.length, " tokens for a model made for ", capacity_.sequences, " x ",
          capacity_.length);
  require(batch.inputs.size() >= rows, "a micro-batch of ", batch.sequences, " x ", batch.length, " tokens has ",
          batch.inputs.size(), " inputs");
}

template <typename T>
void Gpt<T>::check_targets(const MicroBatch& batch) const {
  const std::size_t rows = predictions(batch);
  require(batch.targets.size() >= rows, "a micro-batch of ", rows, " tokens has ", batch.targets.size(), " targets");
}

template <typename T>
void Gpt<T>::upload(const MicroBatch& batch) {
  const std::size_t rows = predictions(batch), targets = std::min(rows, batch.targets.size());
  const Span<std::int32_t> staging = tokens_.next(rows + targets);
  std::copy_n(batch.inputs.begin(), rows, staging.begin());
  std::copy_n(batch.targets.begin(), targets, staging.begin() + static_cast<std::ptrdiff_t>(rows));
  inputs_ = tokens_.upload();
  targets_ = inputs_ + rows;
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
void Gpt<T>::forward(const MicroBatch& batch, float gradient_scale, double* loss) {
  require(capacity_.training, "the model was made without memory for backward");
  check(batch);
  check_targets(batch);
  upload(batch);
  kept_ = batch;
  const gpt::BlockShape s = shape(batch.sequences, batch.length);
  set_product_workspace(batch);
  T* const x = blocks_[0].x;
  embed(s.B, s.T, inputs_, 0, x);
  const kernels::Dropout at_start = dropout(batch, embedding_unit, embedded);
  if (at_start.active()) kernels::dropout_add<T>(at_start, s.B, s.T * s.C, x, nullptr, x);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const int unit = block_unit(i);
    const TracedUnit traced(unit);
    const Weights<T> w(access_, unit, block_layout(i));
    T* const out = i + 1 < blocks_.size() ? blocks_[i + 1].x : final_;
    gpt::block_forward(s, w, blocks_[i], scratch_, block_dropout(kept_, unit), out);
  }
  head(s.rows(), final_, gradient_scale, loss);
}

template <typename T>
void Gpt<T>::head(std::size_t rows, const T* x, std::optional<float> gradient_scale, double* loss) {
  const TracedUnit traced(head_unit());
  const Weights<T> own(access_, head_unit(), head_layout());
  std::optional<Weights<T>> borrowed;
  if (options_.tied) borrowed.emplace(access_, embedding_unit, units_[embedding_unit]);
  const T* const weight = options_.tied ? (*borrowed)[gpt::embedding::token] : own[gpt::head::lm_head];

  kernels::layernorm_forward<T>({rows, options_.n_embd}, static_cast<float>(options_.layer_norm_epsilon),
                                {.x = x, .gain = own[gpt::head::ln_f_weight], .bias = own[gpt::head::ln_f_bias]},
                                {.y = scratch_.h, .mean = final_mean_, .rstd = final_rstd_});
  const HeadInputs<T> in{.rows = rows, .hidden = scratch_.h, .weight = weight, .targets = targets_};
  const Span<std::byte> products = scratch_.product_workspace;
  if (gradient_scale) {
    // The gradient of a tied embedding is one buffer: the head writes its part here, and the embedding's backward adds to
    // it.
    float* const dweight = options_.tied ? Gradient(access_, embedding_unit, units_[embedding_unit])[gpt::embedding::token]
                                         : Gradient(access_, head_unit(), head_layout())[gpt::head::lm_head];
    const HeadGradient<T> gradient{*gradient_scale, dx_, dweight};
    head_.losses(in, losses_, &gradient, head_scratch_, products);
  } else {
    head_.losses(in, losses_, nullptr, head_scratch_, products);
  }
  kernels::sum(rows, losses_, loss);
  if (gradient_scale) norm_backward(rows, x, own);
}

template <typename T>
void Gpt<T>::norm_backward(std::size_t rows, const T* x, const Weights<T>& own) {
  const Gradient g(access_, head_unit(), head_layout());
  kernels::layernorm_backward<T>(
      {rows, options_.n_embd},
      {.x = x, .gain = own[gpt::head::ln_f_weight], .mean = final_mean_, .rstd = final_rstd_, .dy = dx_},
      {.dx = dx_, .dgain = g[gpt::head::ln_f_weight], .dbias = g[gpt::head::ln_f_bias]}, scratch_.workspace);
  access_.gradient_complete(head_unit());
}

template <typename T>
void Gpt<T>::backward() {
  const gpt::BlockShape s = shape(kept_.sequences, kept_.length);
  set_product_workspace(kept_);
  const auto again = [&](std::size_t i) {
    const TracedUnit traced(block_unit(i));
    const Weights<T> w(access_, block_unit(i), block_layout(i));
    recompute(s, w, i, blocks_[i + 1].x);
  };
  segments_.backward(again, [&](std::size_t i, bool first_again) { block_backward(s, i, first_again); });
  embedding_backward();
}

template <typename T>
void Gpt<T>::recompute(const gpt::BlockShape& s, const Weights<T>& w, std::size_t i, T* out) {
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "recompute");
  gpt::block_forward(s, w, blocks_[i], scratch_, block_dropout(kept_, block_unit(i)), out);
}

template <typename T>
void Gpt<T>::block_backward(const gpt::BlockShape& s, std::size_t i, bool again) {
  const int unit = block_unit(i);
  const TracedUnit traced(unit);
  const Weights<T> w(access_, unit, block_layout(i));
  if (again) recompute(s, w, i, nullptr);
  const Gradient g(access_, unit, block_layout(i));
  gpt::block_backward(s, w, g, blocks_[i], scratch_, block_dropout(kept_, unit), dx_);
  access_.gradient_complete(unit);
}

template <typename T>
void Gpt<T>::embedding_backward() {
  const std::size_t C = options_.n_embd;
  const TracedUnit traced(embedding_unit);
  const Gradient g(access_, embedding_unit, units_[embedding_unit]);
  const kernels::Dropout at_start = dropout(kept_, embedding_unit, embedded);
  if (at_start.active()) kernels::dropout_backward<T>(at_start, kept_.sequences, kept_.length * C, dx_, dx_);
  float* const dwte = g[gpt::embedding::token];
  float* const dwpe = g[gpt::embedding::position];
  if (!options_.tied) kernels::fill(options_.vocab_size * C, 0.0F, dwte);
  kernels::embedding_backward<T>({kept_.sequences, kept_.length, C}, inputs_, dx_, {.token = dwte, .position = dwpe});
  kernels::fill((options_.block_size - kept_.length) * C, 0.0F, dwpe + kept_.length * C);
  access_.gradient_complete(embedding_unit);
}

template <typename T>
gpt::BlockActivations<T> Gpt<T>::unkept(std::size_t i) const {
  gpt::BlockActivations<T> a = blocks_[0];
  a.x_mid = a.x;
  a.qkv = blocks_[i].qkv;
  return a;
}

template <typename T>
T* Gpt<T>::run_blocks(const MicroBatch& batch) {
  check(batch);
  upload(batch);
  const gpt::BlockShape s = shape(batch.sequences, batch.length);
  T* const x = blocks_[0].x;
  embed(s.B, s.T, inputs_, 0, x);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const int unit = block_unit(i);
    const TracedUnit traced(unit);
    const Weights<T> w(access_, unit, block_layout(i));
    gpt::block_forward(s, w, unkept(i), scratch_, {}, x);
  }
  return x;
}

template <typename T>
void Gpt<T>::evaluate(const MicroBatch& batch, double* loss) {
  check_targets(batch);
  set_product_workspace(batch);
  head(predictions(batch), run_blocks(batch), std::nullopt, loss);
}

template <typename T>
void Gpt<T>::logits_of(std::size_t rows, const T* x, std::size_t stride, float* out) {
  const TracedUnit traced(head_unit());
  const std::size_t C = options_.n_embd;
  const Weights<T> own(access_, head_unit(), head_layout());
  for (std::size_t row = 0; row < rows; ++row) {
    kernels::layernorm_forward<T>(
        {1, C}, static_cast<float>(options_.layer_norm_epsilon),
        {.x = x + row * stride, .gain = own[gpt::head::ln_f_weight], .bias = own[gpt::head::ln_f_bias]},
        {.y = scratch_.h + row * C, .mean = final_mean_ + row, .rstd = final_rstd_ + row});
  }
  std::optional<Weights<T>> borrowed;
  if (options_.tied) borrowed.emplace(access_, embedding_unit, units_[embedding_unit]);
  const T* const weight = options_.tied ? (*borrowed)[gpt::embedding::token] : own[gpt::head::lm_head];
  head_.logits(rows, scratch_.h, weight, out, head_scratch_, scratch_.product_workspace);
}

template <typename T>
void Gpt<T>::logits(const MicroBatch& batch, Span<float> out) {
  require(out.size() == batch.sequences * options_.vocab_size, "room for ", out.size(), " logits of ", batch.sequences,
          " sequences");
  set_product_workspace(batch);
  const std::size_t stride = batch.length * options_.n_embd;
  logits_of(batch.sequences, run_blocks(batch) + stride - options_.n_embd, stride, out.data());
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
  T* const x = blocks_[0].x;
  tokens_.next(1).front() = token;
  embed(1, 1, tokens_.upload(), decoded_, x);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const int unit = block_unit(i);
    const TracedUnit traced(unit);
    const Weights<T> w(access_, unit, block_layout(i));
    gpt::block_decode(s, w, unkept(i), scratch_, decoded_, x);
  }
  logits_of(1, x, s.C, out.data());
  ++decoded_;
}

template class Gpt<float>;
template class Gpt<bf16>;
template class Gpt<f16>;

}  // namespace shoal::model
