// SPDX-License-Identifier: Apache-2.0
// Generation: continues a sequence of tokens, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shoal/model/model.hpp"

namespace shoal::model {

struct GenerateOptions {
  std::size_t tokens = 100;  ///< added to the prompt
  double temperature = 1.0;  ///< divides the logits; 0: always the most likely token (the first of equals)
  std::size_t top_k = 0;     ///< draws from the k most likely tokens; 0: from all
  std::uint64_t seed = 1;
  std::uint32_t sample = 0;  ///< number of the continuation: others with the same seed use other random numbers
};

/// Draws token number `index` of a continuation from its logits. The result is a function of the arguments only, so all
/// ranks draw the same token, or raise the same error if a logit is NaN or the largest is infinite.
std::int32_t draw(Span<const float> logits, const GenerateOptions& options, std::uint64_t index);

/// Returns the added tokens. on_token, if given, is called with each token as soon as it is drawn. The model must have been
/// created for at least one sequence of options.block_size.
/// If the model has a Decoder, each token costs one position. Position embeddings are learned, so the window cannot slide:
/// when the sequence has filled block_size, its last half is computed again from position 0. A model without a Decoder
/// computes the last block_size tokens for each new token.
std::vector<std::int32_t> generate(Model& model, const ModelOptions& options, Span<const std::int32_t> prompt,
                                   const GenerateOptions& wanted, const std::function<void(std::int32_t)>& on_token = {});

}  // namespace shoal::model
