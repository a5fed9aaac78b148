// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shoal::app {

/// The purpose for which a model is set up.
enum class Purpose {
  train,
  evaluate,  ///< data and one forward pass
  generate,  ///< the data's vocabulary, and memory for decoding one sequence
  weights,   ///< no data: export
};

}  // namespace shoal::app
