// SPDX-License-Identifier: Apache-2.0
#include "block.hpp"

#include <algorithm>

#include "gpt_layout.hpp"
#include "products.hpp"
#include "shoal/kernels/layernorm.hpp"
#include "shoal/kernels/pointwise.hpp"

namespace shoal::model::gpt {

namespace {

/// out = residual + drop(x W + bias) with residual = branch.added; out may be the residual.
template <typename T>
void add_branch(const char* label, const BlockShape& s, const LinearShape& shape, const LinearInputs<T>& branch,
                const kernels::Dropout& dropout, const BlockScratch<T>& scratch, T* out) {
  if (dropout.active()) {
    T* const projected = scratch.h;
    linear<T>(label, shape, {.x = branch.x, .weight = branch.weight, .bias = branch.bias}, projected,
              scratch.product_workspace);
    kernels::dropout_add(dropout, s.B, s.T * s.C, projected, branch.added, out);
  } else {
    linear(label, shape, branch, out, scratch.product_workspace);
  }
}

/// Returns the gradient of a branch's result, given the gradient dy of its sum with the residual.
template <typename T>
const T* branch_gradient(const BlockShape& s, const kernels::Dropout& dropout, const T* dy, T* branch) {
  if (!dropout.active()) return dy;
  kernels::dropout_backward(dropout, s.B, s.T * s.C, dy, branch);
  return branch;
}

/// dx = dy + gradient of the MLP branch.
template <typename T>
void mlp_backward(const BlockShape& s, const Weights<T>& w, const Gradient& g, const BlockActivations<T>& a,
                  const BlockScratch<T>& scratch, const kernels::Dropout& dropout, const T* dy, T* dx) {
  const std::size_t rows = s.rows();
  const T* const d_out = branch_gradient(s, dropout, dy, scratch.branch);
  T* const d_gelu = scratch.wide_a;
  T* const du = scratch.wide_a;
  T* const gelu = scratch.wide_b;
  const Span<std::byte> products = scratch.product_workspace;
  if (s.fused_gelu) {
    linear_gelu_gradient("mlp_out_dx", s.mlp_out(), d_out, w[block::mlp_out_weight], a.u, du, products);
    kernels::gelu_forward(rows * s.inner, a.u, gelu);
    kernels::column_sum({rows, s.inner}, du, g[block::mlp_bias], scratch.workspace);
  } else {
    linear_input_gradient("mlp_out_dx", s.mlp_out(), d_out, w[block::mlp_out_weight], d_gelu, products);
    kernels::gelu_backward<T>({rows, s.inner}, {.u = a.u, .dg = d_gelu}, {.g = gelu, .du = du, .dbias = g[block::mlp_bias]},
                              scratch.workspace);
  }
  linear_weight_gradient("mlp_out_dw", s.mlp_out(), gelu, d_out, g[block::mlp_out_weight], products);
  kernels::column_sum(s.stream(), d_out, g[block::mlp_out_bias], scratch.workspace);

  kernels::layernorm_recompute<T>(s.stream(), {.x = a.x_mid, .gain = w[block::ln_2_weight], .bias = w[block::ln_2_bias]},
                                  {.mean = a.mean_2, .rstd = a.rstd_2}, scratch.h);
  linear_weight_gradient("mlp_dw", s.mlp(), scratch.h, du, g[block::mlp_weight], products);
  linear_input_gradient("mlp_dx", s.mlp(), du, w[block::mlp_weight], scratch.dh, products);
  kernels::layernorm_backward<T>(s.stream(),
                                 {.x = a.x_mid,
                                  .gain = w[block::ln_2_weight],
                                  .mean = a.mean_2,
                                  .rstd = a.rstd_2,
                                  .dy = scratch.dh,
                                  .residual_gradient = dy},
                                 {.dx = dx, .dgain = g[block::ln_2_weight], .dbias = g[block::ln_2_bias]},
                                 scratch.workspace);
}

/// dx += gradient of the attention branch.
template <typename T>
void attention_branch_backward(const BlockShape& s, const Weights<T>& w, const Gradient& g, const BlockActivations<T>& a,
                               const BlockScratch<T>& scratch, const BlockDropout& dropout, T* dx) {
  const std::size_t rows = s.rows();
  const T* const d_out = branch_gradient(s, dropout.attention_out, dx, scratch.branch);
  T* const d_attention = scratch.dh;
  T* const dqkv = scratch.wide_a;
  const Span<std::byte> products = scratch.product_workspace;
  linear_weight_gradient("attention_out_dw", s.attention_out(), a.attention, d_out, g[block::attention_out_weight],
                         products);
  kernels::column_sum(s.stream(), d_out, g[block::attention_out_bias], scratch.workspace);
  linear_input_gradient("attention_out_dx", s.attention_out(), d_out, w[block::attention_out_weight], d_attention, products);
  kernels::attention_backward<T>(s.attention(),
                                 {.qkv = a.qkv, .out = a.attention, .logsumexp = a.logsumexp, .dout = d_attention}, dqkv,
                                 dropout.probabilities, scratch.workspace);

  kernels::column_sum({rows, 3 * s.C}, dqkv, g[block::attention_bias], scratch.workspace);
  kernels::layernorm_recompute<T>(s.stream(), {.x = a.x, .gain = w[block::ln_1_weight], .bias = w[block::ln_1_bias]},
                                  {.mean = a.mean_1, .rstd = a.rstd_1}, scratch.h);
  linear_weight_gradient("qkv_dw", s.qkv(), scratch.h, dqkv, g[block::attention_weight], products);
  linear_input_gradient("qkv_dx", s.qkv(), dqkv, w[block::attention_weight], scratch.dh, products);
  kernels::layernorm_backward<T>(s.stream(),
                                 {.x = a.x,
                                  .gain = w[block::ln_1_weight],
                                  .mean = a.mean_1,
                                  .rstd = a.rstd_1,
                                  .dy = scratch.dh,
                                  .residual_gradient = dx},
                                 {.dx = dx, .dgain = g[block::ln_1_weight], .dbias = g[block::ln_1_bias]},
                                 scratch.workspace);
}

/// out = x_mid + MLP branch. If out is null, computes only the activations that backward needs.
template <typename T>
void mlp_forward(const BlockShape& s, const Weights<T>& w, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                 const kernels::Dropout& dropout, T* out) {
  const std::size_t rows = s.rows();
  kernels::layernorm_forward<T>(s.stream(), s.epsilon,
                                {.x = a.x_mid, .gain = w[block::ln_2_weight], .bias = w[block::ln_2_bias]},
                                {.y = scratch.h, .mean = a.mean_2, .rstd = a.rstd_2});
  const LinearInputs<T> up{.x = scratch.h, .weight = w[block::mlp_weight], .bias = w[block::mlp_bias]};
  T* const gelu = scratch.wide_b;
  if (s.fused_gelu) {
    linear_gelu<T>("mlp", s.mlp(), up, a.u, gelu, scratch.product_workspace);
  } else {
    linear<T>("mlp", s.mlp(), up, a.u, scratch.product_workspace);
  }
  if (out == nullptr) return;
  if (!s.fused_gelu) kernels::gelu_forward(rows * s.inner, a.u, gelu);
  add_branch<T>("mlp_out", s, s.mlp_out(),
                {.x = gelu, .weight = w[block::mlp_out_weight], .bias = w[block::mlp_out_bias], .added = a.x_mid}, dropout,
                scratch, out);
}

}  // namespace

template <typename T>
void block_forward(const BlockShape& s, const Weights<T>& w, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                   const BlockDropout& dropout, T* out) {
  kernels::layernorm_forward<T>(s.stream(), s.epsilon,
                                {.x = a.x, .gain = w[block::ln_1_weight], .bias = w[block::ln_1_bias]},
                                {.y = scratch.h, .mean = a.mean_1, .rstd = a.rstd_1});
  linear<T>("qkv", s.qkv(), {.x = scratch.h, .weight = w[block::attention_weight], .bias = w[block::attention_bias]}, a.qkv,
            scratch.product_workspace);
  kernels::attention_forward<T>(s.attention(), a.qkv, {.out = a.attention, .logsumexp = a.logsumexp}, dropout.probabilities,
                                scratch.workspace);
  add_branch<T>(
      "attention_out", s, s.attention_out(),
      {.x = a.attention, .weight = w[block::attention_out_weight], .bias = w[block::attention_out_bias], .added = a.x},
      dropout.attention_out, scratch, a.x_mid);
  mlp_forward(s, w, a, scratch, dropout.mlp_out, out);
}

template <typename T>
void block_backward(const BlockShape& s, const Weights<T>& w, const Gradient& g, const BlockActivations<T>& a,
                    const BlockScratch<T>& scratch, const BlockDropout& dropout, const T* dy, T* dx) {
  mlp_backward(s, w, g, a, scratch, dropout.mlp_out, dy, dx);
  attention_branch_backward(s, w, g, a, scratch, dropout, dx);
}

template <typename T>
void block_decode(const BlockShape& shape, const Weights<T>& w, const BlockActivations<T>& activations,
                  const BlockScratch<T>& scratch, std::size_t position, T* x) {
  BlockShape s = shape;
  s.B = s.T = 1;
  BlockActivations<T> a = activations;
  a.x = a.x_mid = x;
  const std::size_t stride = 3 * s.C;  // elements from one position of the cache to the next
  T* const row = a.qkv + position * stride;
  kernels::layernorm_forward<T>(s.stream(), s.epsilon, {.x = x, .gain = w[block::ln_1_weight], .bias = w[block::ln_1_bias]},
                                {.y = scratch.h, .mean = a.mean_1, .rstd = a.rstd_1});
  linear<T>("qkv", s.qkv(), {.x = scratch.h, .weight = w[block::attention_weight], .bias = w[block::attention_bias]}, row,
            scratch.product_workspace);
  kernels::attention_decode<T>(s.NH, s.C / s.NH, row,
                               {.keys = a.qkv + s.C, .values = a.qkv + 2 * s.C, .stride = stride, .length = position + 1},
                               a.attention);
  add_branch<T>(
      "attention_out", s, s.attention_out(),
      {.x = a.attention, .weight = w[block::attention_out_weight], .bias = w[block::attention_out_bias], .added = x}, {},
      scratch, x);
  mlp_forward(s, w, a, scratch, {}, x);
}

namespace {

template <typename T>
void list_forward(std::vector<kernels::Product>& list, const BlockShape& s) {
  list_linear<T>(list, s.qkv());
  list_linear<T>(list, s.attention_out(), true);
  if (s.fused_gelu) {
    list_linear_gelu<T>(list, s.mlp());
  } else {
    list_linear<T>(list, s.mlp());
  }
  list_linear<T>(list, s.mlp_out(), true);
}

template <typename T>
void list_backward(std::vector<kernels::Product>& list, const BlockShape& s) {
  for (const LinearShape& shape : {s.qkv(), s.attention_out(), s.mlp()}) {
    list_linear_input_gradient<T>(list, shape);
    list_linear_weight_gradient<T>(list, shape);
  }
  if (s.fused_gelu) {
    list_linear_gelu_gradient<T>(list, s.mlp_out());
  } else {
    list_linear_input_gradient<T>(list, s.mlp_out());
  }
  list_linear_weight_gradient<T>(list, s.mlp_out());
}

}  // namespace

template <typename T>
std::vector<kernels::Product> block_products(const BlockShape& s, const BlockPasses& passes) {
  std::vector<kernels::Product> list;
  list_forward<T>(list, s);
  if (passes.training) {
    if (passes.dropout) {  // between the branches' last products and the residual stream
      list_linear<T>(list, s.attention_out());
      list_linear<T>(list, s.mlp_out());
    }
    list_backward<T>(list, s);
  }
  if (passes.decoding) {
    BlockShape one = s;
    one.B = one.T = 1;
    list_forward<T>(list, one);
    // The row of keys and values of a new position lies behind those of the earlier ones.
    if (3 * s.C * sizeof(T) % kernels::operand_alignment != 0) list_linear<T>(list, one.qkv(), false, false);
  }
  return list;
}

template <typename T>
std::size_t block_workspace_bytes(const BlockShape& s, bool training) {
  std::size_t bytes = kernels::attention_workspace_bytes<T>(s.attention());
  if (training) {
    bytes = std::max({bytes, kernels::layernorm_workspace_bytes(s.stream()),
                      kernels::column_sum_workspace_bytes({s.rows(), s.inner}),
                      kernels::column_sum_workspace_bytes({s.rows(), 3 * s.C})});
  }
  return bytes;
}

#define SHOAL_INSTANTIATE(T)                                                                                            \
  template void block_forward(const BlockShape&, const Weights<T>&, const BlockActivations<T>&, const BlockScratch<T>&, \
                              const BlockDropout&, T*);                                                                 \
  template void block_backward(const BlockShape&, const Weights<T>&, const Gradient&, const BlockActivations<T>&,       \
                               const BlockScratch<T>&, const BlockDropout&, const T*, T*);                              \
  template void block_decode(const BlockShape&, const Weights<T>&, const BlockActivations<T>&, const BlockScratch<T>&,  \
                             std::size_t, T*);                                                                          \
  template std::vector<kernels::Product> block_products<T>(const BlockShape&, const BlockPasses&);                      \
  template std::size_t block_workspace_bytes<T>(const BlockShape&, bool);
SHOAL_INSTANTIATE(float)
SHOAL_INSTANTIATE(bf16)
SHOAL_INSTANTIATE(f16)
#undef SHOAL_INSTANTIATE

}  // namespace shoal::model::gpt
