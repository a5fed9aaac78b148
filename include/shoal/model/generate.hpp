// SPDX-License-Identifier: Apache-2.0
// Continues a sequence of tokens, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shoal/model/model.hpp"

namespace shoal::model {

struct GenerateOptions {
  std::size_t tokens = 100;  ///< to be added to the prompt
  double temperature = 1.0;  ///< logits are divided by it; 0: always the likeliest token (the first of equals)
  std::size_t top_k = 0;     ///< draw from the k likeliest tokens only; 0: from all
  std::uint64_t seed = 1;
  std::uint32_t sample = 0;  ///< the continuation's number: others with the same seed draw other numbers
};

/// Draws token number `index` of a continuation from its logits: a function of its arguments alone, so that every rank draws
/// the same one.
std::int32_t draw(Span<const float> logits, const GenerateOptions& options, std::uint64_t index);

/// Returns the added tokens; hears of each as soon as it is drawn (may be empty). The model was made for at least one
/// sequence of options.block_size. Where it has a Decoder, each token costs one position. Positions are learned and so
/// cannot slide: when a sequence has filled block_size, its last half is run anew from position 0. A model without a Decoder
/// sees the last block_size tokens each time.
std::vector<std::int32_t> generate(Model& model, const ModelOptions& options, Span<const std::int32_t> prompt,
                                   const GenerateOptions& wanted, const std::function<void(std::int32_t)>& on_token = {});

}  // namespace shoal::model
