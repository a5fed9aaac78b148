// SPDX-License-Identifier: Apache-2.0
// The tensors of GPT-2 (Radford et al. 2019) with Hugging Face's names, in the units embedding, h.0, h.1, ..., head. With
// model.tied_gradient = apart a last unit head.wte follows: the head's copy of the embedding. It has all elements of the
// embedding, also the positions, so that its shards are those of the embedding: a rank that has shard r of the one has
// shard r of the other, and nothing is cut again. The positions, block_size x n_embd elements, are not used, and their
// gradient is zero.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "segments.hpp"
#include "shoal/model/model.hpp"

namespace shoal::model::gpt {

// Indices of the tensors in UnitLayout::parameters.
namespace embedding {
enum : std::size_t { token, position };  // [V, C], [T, C]
}
namespace block {
enum : std::size_t {
  ln_1_weight,
  ln_1_bias,
  attention_weight,  // [C, 3C]: q, k, v
  attention_bias,
  attention_out_weight,  // [C, C]
  attention_out_bias,
  ln_2_weight,
  ln_2_bias,
  mlp_weight,  // [C, inner]
  mlp_bias,
  mlp_out_weight,  // [inner, C]
  mlp_out_bias,
};
}
namespace head {
enum : std::size_t { ln_f_weight, ln_f_bias, lm_head };  // lm_head [V, C] only if it is not tied
/// The weight of the direct connection, [V, C], which follows if the model has one.
inline std::size_t direct(const ModelOptions& options) { return options.tied ? std::size_t{lm_head} : lm_head + 1; }
}  // namespace head

/// Rows of the token embedding and of the weights of head and direct connection in memory: the vocabulary's size rounded up
/// to a multiple of 64. The rows behind the vocabulary are zero. Matrix products with an odd dimension are several times
/// slower on some GPUs (GPT-2's vocabulary is 50257). All devices have the same layout, so that they compute the same sums.
std::size_t vocabulary_rows(const ModelOptions& options);

std::vector<UnitLayout> layout(const ModelOptions& options);
/// The units of the head: `head`, and after it, if the head has a copy of the token embedding, `head.wte`.
inline std::size_t units_of_head(const ModelOptions& options) { return options.has_copied_embedding() ? 2 : 1; }
/// What the capacity's part has.
PartLayers part_layers(const ModelOptions& options, const Capacity& capacity);
/// Of the capacity's part. Without training each block is a segment, since all blocks work in place.
Segments segments(const ModelOptions& options, const Capacity& capacity);
UseOrders use_orders(const ModelOptions& options, const Capacity& capacity);
std::vector<std::string> problems(const ModelOptions& options);

}  // namespace shoal::model::gpt
