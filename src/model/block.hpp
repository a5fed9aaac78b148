// SPDX-License-Identifier: Apache-2.0
// One transformer block, pre-LN as in GPT-2, forward and backward written out by hand:
//   x_mid = x     + drop(attention(ln_1(x) W_qkv + b) W_o + b)
//   out   = x_mid + drop(gelu(ln_2(x_mid) W_fc + b) W_out + b)
// For backward it keeps what matrix products and attention made; what a cheap pass over memory can make again (both norms'
// outputs and gelu(u)) is recomputed into scratch that all blocks share.
#pragma once

#include <cstddef>

#include "shoal/kernels/attention.hpp"
#include "shoal/kernels/dropout.hpp"
#include "shoal/model/model.hpp"
#include "views.hpp"

namespace shoal::model::gpt {

// B sequences, T positions, C = n_embd, NH heads; rows = B T.
struct BlockShape {
  std::size_t B, T, C, NH, inner;
  float epsilon;
  std::size_t rows() const { return B * T; }
  kernels::AttentionShape attention() const { return {B, T, C, NH}; }
};

/// What one block keeps from forward for backward. [rows, C] unless said otherwise.
template <typename T>
struct BlockActivations {
  T* x;                                      ///< the block's input
  T* x_mid;                                  ///< after the attention branch; may be x where nothing is kept
  T* qkv;                                    ///< [rows, 3C]
  T* attention;                              ///< the heads' outputs
  T* u;                                      ///< [rows, inner], before the GELU
  float* logsumexp;                          ///< [B, NH, T]
  float *mean_1, *rstd_1, *mean_2, *rstd_2;  ///< [rows]
};

/// Memory that every block writes over. branch, wide_a and dh are there for training only.
template <typename T>
struct BlockScratch {
  T* h;                               ///< [rows, C] a norm's output; later what a branch adds, where it goes through dropout
  T* dh;                              ///< [rows, C] gradient of h
  T* branch;                          ///< [rows, C] gradient of a branch, where it goes through dropout
  T* wide_a;                          ///< [rows, inner] gradient of gelu(u), then of u; or [rows, 3C] gradient of qkv
  T* wide_b;                          ///< [rows, inner] gelu(u)
  Span<std::byte> workspace;          ///< of kernels other than matrix products
  Span<std::byte> product_workspace;  ///< of matrix products
};

/// The three places of a block where elements are dropped.
struct BlockDropout {
  kernels::Dropout probabilities, attention_out, mlp_out;
};

/// out may be activations.x where nothing is kept, or nullptr where only the activations are wanted: the last product is
/// left out then.
template <typename T>
void block_forward(const BlockShape& shape, const Weights<T>& weights, const BlockActivations<T>& activations,
                   const BlockScratch<T>& scratch, const BlockDropout& dropout, T* out);

/// dx: in, the gradient of the block's output; out, that of its input. Writes every gradient of the unit.
template <typename T>
void block_backward(const BlockShape& shape, const Weights<T>& weights, const Gradient& gradient,
                    const BlockActivations<T>& activations, const BlockScratch<T>& scratch, const BlockDropout& dropout,
                    T* dx);

/// One new position of one sequence: x [C] is replaced by the block's output. activations.qkv [positions, 3C] holds the rows
/// of the positions before it and receives this one's; of the other activations one row is used.
template <typename T>
void block_decode(const BlockShape& shape, const Weights<T>& weights, const BlockActivations<T>& activations,
                  const BlockScratch<T>& scratch, std::size_t position, T* x);

/// Bytes of workspace for matrix products, and for the other kernels, of a block of this shape.
template <typename T>
std::size_t block_product_workspace_bytes(const BlockShape& shape, bool training);
template <typename T>
std::size_t block_workspace_bytes(const BlockShape& shape, bool training);

}  // namespace shoal::model::gpt
