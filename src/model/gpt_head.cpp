// SPDX-License-Identifier: Apache-2.0
// The head of a GPT: final norm, losses with their backward, and logits.
#include "gpt.hpp"
#include "gpt_layout.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/layernorm.hpp"
#include "shoal/kernels/reduce.hpp"

namespace shoal::model {

namespace {

/// Index of the head's weight in its unit, which is the head, the embedding or its copy.
std::size_t head_weight(const ModelOptions& options) {
  return options.tied ? std::size_t{gpt::embedding::token} : std::size_t{gpt::head::lm_head};
}

}  // namespace

template <typename T>
void Gpt<T>::head(const Slot& slot, std::size_t rows, const T* x, const Direct& direct, std::optional<float> gradient_scale,
                  double* loss) {
  const TracedUnit traced(head_unit());
  const Weights<T> own(access_, head_unit(), head_layout());
  std::optional<Weights<T>> borrowed;
  if (options_.tied) borrowed.emplace(access_, head_weight_unit(), head_weight_layout());
  const T* const weight = (borrowed ? *borrowed : own)[head_weight(options_)];

  kernels::layernorm_forward<T>({rows, options_.n_embd}, static_cast<float>(options_.layer_norm_epsilon),
                                {.x = x, .gain = own[gpt::head::ln_f_weight], .bias = own[gpt::head::ln_f_bias]},
                                {.y = scratch_.h, .mean = final_mean_, .rstd = final_rstd_});
  HeadInputs<T> in{.rows = rows, .hidden = {scratch_.h, weight}, .direct = {}, .targets = slot.targets};
  if (direct.input != nullptr) in.direct = {direct.input, own[gpt::head::direct(options_)]};
  const Span<std::byte> products = scratch_.product_workspace;
  if (gradient_scale) {
    // Of a tied embedding whose gradients are joined, the head writes its part here, and the embedding's backward adds to
    // it.
    const Gradient g(access_, head_weight_unit(), head_weight_layout());
    HeadGradient<T> gradient{*gradient_scale, {slot.gradient, g[head_weight(options_)]}, {}};
    if (in.direct) {
      const Gradient of_head(access_, head_unit(), head_layout());
      gradient.direct = {direct.gradient, of_head[gpt::head::direct(options_)]};
    }
    head_.losses(in, losses_, &gradient, head_scratch_, products);
    if (options_.has_copied_embedding()) complete_copy(g);
  } else {
    head_.losses(in, losses_, nullptr, head_scratch_, products);
  }
  kernels::sum(rows, losses_, loss);
  if (gradient_scale) norm_backward(rows, x, own, slot.gradient);
}

template <typename T>
void Gpt<T>::complete_copy(const Gradient& g) {
  float* const positions = g[gpt::embedding::position];
  kernels::fill(units_[embedding_unit].elements - units_[embedding_unit].parameters[gpt::embedding::position].offset, 0.0F,
                positions);
  access_.gradient_complete(head_weight_unit());
}

template <typename T>
void Gpt<T>::norm_backward(std::size_t rows, const T* x, const Weights<T>& own, T* dx) {
  const Gradient g(access_, head_unit(), head_layout());
  kernels::layernorm_backward<T>(
      {rows, options_.n_embd},
      {.x = x, .gain = own[gpt::head::ln_f_weight], .mean = final_mean_, .rstd = final_rstd_, .dy = dx},
      {.dx = dx, .dgain = g[gpt::head::ln_f_weight], .dbias = g[gpt::head::ln_f_bias]}, scratch_.workspace);
  access_.gradient_complete(head_unit());
}

template <typename T>
void Gpt<T>::keep_last_embedded(const MicroBatch& batch) {
  if (!options_.direct || batch.length == 1) return;
  const std::size_t C = options_.n_embd;
  for (std::size_t b = 0; b < batch.sequences; ++b) {
    kernels::copy_bytes(C * sizeof(T), embedded_ + ((b + 1) * batch.length - 1) * C, embedded_ + b * C);
  }
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
  if (options_.tied) borrowed.emplace(access_, head_weight_unit(), head_weight_layout());
  const T* const weight = (borrowed ? *borrowed : own)[head_weight(options_)];
  HeadInputs<T> in{.rows = rows, .hidden = {scratch_.h, weight}, .direct = {}, .targets = nullptr};
  if (options_.direct) in.direct = {embedded_, own[gpt::head::direct(options_)]};
  head_.logits(in, out, head_scratch_, scratch_.product_workspace);
}

#define SHOAL_INSTANTIATE(T)                                                                                    \
  template void Gpt<T>::head(const Slot&, std::size_t, const T*, const Direct&, std::optional<float>, double*); \
  template void Gpt<T>::complete_copy(const Gradient&);                                                         \
  template void Gpt<T>::norm_backward(std::size_t, const T*, const Weights<T>&, T*);                            \
  template void Gpt<T>::keep_last_embedded(const MicroBatch&);                                                  \
  template void Gpt<T>::logits_of(std::size_t, const T*, std::size_t, float*);
SHOAL_INSTANTIATE(float)
SHOAL_INSTANTIATE(bf16)
SHOAL_INSTANTIATE(f16)
#undef SHOAL_INSTANTIATE

}  // namespace shoal::model
