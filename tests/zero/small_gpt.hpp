// SPDX-License-Identifier: Apache-2.0
// A small GPT whose parts are compared with the whole: with dropout, and a head that is not tied to the embedding.
#pragma once

#include <cstdint>
#include <vector>

#include "shoal/zero/engine.hpp"

namespace shoal::zero::test {

inline constexpr std::size_t layers = 4, length = 8, sequences = 2, symbols = 17;

inline EngineOptions small_gpt(int stage) {
  EngineOptions o;
  o.model = {.n_layer = layers, .n_head = 2, .n_embd = 32, .block_size = length, .vocab_size = symbols, .init_from = ""};
  o.model.dropout = 0.1;
  o.model.tied = false;
  o.capacity = {.sequences = sequences, .length = length};
  o.zero.stage = stage;
  return o;
}

/// Those of a micro-batch; others begin with another number.
struct Tokens {
  explicit Tokens(std::size_t first) : inputs(sequences * length), targets(inputs.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<std::int32_t>((first + i) * (first + i) % symbols);
      targets[i] = static_cast<std::int32_t>((first + i + 1) * (first + i + 1) % symbols);
    }
  }
  std::vector<std::int32_t> inputs, targets;
};

}  // namespace shoal::zero::test
