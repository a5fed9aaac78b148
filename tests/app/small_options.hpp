// SPDX-License-Identifier: Apache-2.0
// Options of a run that is planned, not made: a GPT of two layers.
#pragma once

#include "shoal/config/options.hpp"

namespace shoal::app::test {

inline config::Options small_options() {
  config::Options options;
  options.model.n_layer = 2;
  options.model.n_head = 2;
  options.model.n_embd = 16;
  options.model.block_size = 8;
  options.model.vocab_size = 64;
  options.batch.micro = 1;
  options.batch.global = 4;
  return options;
}

}  // namespace shoal::app::test
