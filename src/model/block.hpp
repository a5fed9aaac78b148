// SPDX-License-Identifier: Apache-2.0
// One transformer block, pre-LN as in GPT-2, forward and backward written out by hand:
//   x_mid = x     + drop(attention(ln_1(x) W_qkv + b) W_o + b)
//   out   = x_mid + drop(gelu(ln_2(x_mid) W_fc + b) W_out + b)
// The results of matrix products and attention are saved for backward. Values that one cheap pass over memory can compute
// again (the outputs of both norms, and gelu(u)) are recomputed, in scratch memory that all blocks use.
#pragma once

#include <cstddef>
#include <vector>

#include "products.hpp"
#include "shoal/kernels/attention.hpp"
#include "shoal/kernels/dropout.hpp"
#include "shoal/kernels/rows.hpp"
#include "shoal/model/model.hpp"
#include "views.hpp"

namespace shoal::model::gpt {

// B sequences, T positions, C = n_embd, NH heads; rows = B T.
struct BlockShape {
  std::size_t B, T, C, NH, inner;
  float epsilon;
  bool fused_gelu;  ///< by the products before it
  std::size_t rows() const { return B * T; }
  kernels::RowShape stream() const { return {rows(), C}; }  ///< of the residual stream
  kernels::AttentionShape attention() const { return {B, T, C, NH}; }
  LinearShape qkv() const { return {rows(), C, 3 * C}; }
  LinearShape attention_out() const { return {rows(), C, C}; }
  LinearShape mlp() const { return {rows(), C, inner}; }
  LinearShape mlp_out() const { return {rows(), inner, C}; }
};

/// The activations that forward saves for backward. Their shape is [rows, C] unless another one is given.
template <typename T>
struct BlockActivations {
  const T* x;                                ///< the block's input
  T* x_mid;                                  ///< after the attention branch; may be x if nothing is saved
  T* qkv;                                    ///< [rows, 3C]
  T* attention;                              ///< the outputs of the heads
  T* u;                                      ///< [rows, inner], before the GELU
  float* logsumexp;                          ///< [B, NH, T]
  float *mean_1, *rstd_1, *mean_2, *rstd_2;  ///< [rows]
};

/// Memory that each block overwrites. branch, wide_a and dh are used in training only.
template <typename T>
struct BlockScratch {
  T* h;                               ///< [rows, C] the output of a norm; later the result of a branch, if there is dropout
  T* dh;                              ///< [rows, C] gradient of h
  T* branch;                          ///< [rows, C] gradient of a branch's result, if there is dropout
  T* wide_a;                          ///< [rows, inner] gradient of gelu(u), then of u; or [rows, 3C] gradient of qkv
  T* wide_b;                          ///< [rows, inner] gelu(u)
  Span<std::byte> workspace;          ///< of kernels other than matrix products
  Span<std::byte> product_workspace;  ///< of matrix products
};

/// The three sites of a block at which elements are dropped.
struct BlockDropout {
  kernels::Dropout probabilities, attention_out, mlp_out;
};

/// out may be activations.x if nothing is saved. If it is nullptr, only the activations are computed, without the last
/// product.
template <typename T>
void block_forward(const BlockShape& shape, const Weights<T>& weights, const BlockActivations<T>& activations,
                   const BlockScratch<T>& scratch, const BlockDropout& dropout, T* out);

/// dy: the gradient of the block's output; dx becomes that of its input, and may be dy. Writes all gradients of the unit.
template <typename T>
void block_backward(const BlockShape& shape, const Weights<T>& weights, const Gradient& gradient,
                    const BlockActivations<T>& activations, const BlockScratch<T>& scratch, const BlockDropout& dropout,
                    const T* dy, T* dx);

/// One new position of one sequence: replaces x [C] by the block's output. activations.qkv [positions, 3C] holds the rows of
/// the earlier positions, and the row of this one is added. One row of each other activation is used.
template <typename T>
void block_decode(const BlockShape& shape, const Weights<T>& weights, const BlockActivations<T>& activations,
                  const BlockScratch<T>& scratch, std::size_t position, T* x);

/// Which passes a block runs.
struct BlockPasses {
  bool training, dropout, decoding;
};
/// The matrix products of a block of this shape.
template <typename T>
std::vector<kernels::Product> block_products(const BlockShape& shape, const BlockPasses& passes);
/// Bytes of workspace of the other kernels.
template <typename T>
std::size_t block_workspace_bytes(const BlockShape& shape, bool training);

}  // namespace shoal::model::gpt
