// SPDX-License-Identifier: Apache-2.0
// What each unit of a model costs in training. Whole-model figures, step simulations and the division of a model among the
// stages of a pipeline are all made from these numbers.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/model/model.hpp"

namespace shoal::model {

struct UnitCost {
  /// Floating-point operations in matrix products and attention, for one sequence of block_size tokens. Operations that a
  /// causal model can leave out are not counted, so that no processor seems faster than it is. They are whole numbers.
  double forward_flops = 0, backward_flops = 0;
  /// Operations of forward that the backward of a layer repeats by itself if it finds no activations, and none has computed
  /// them just before: those of its output alone are left out.
  double repeated_flops = 0;
  /// Bytes of activations of one micro-batch of the capacity's size, as the model takes them from Memory. input: the output
  /// of the unit before this one, which forward saves (0 for the first unit). kept: all else that forward saves for
  /// backward.
  std::size_t input_bytes = 0, kept_bytes = 0;
  /// Bytes that are used only while a unit computes. The units of a rank share them: the largest counts.
  std::size_t scratch_bytes = 0;

  double flops() const { return forward_flops + backward_flops; }
};

/// The costs of each unit, in the order of layout(). vocab_size must be set. dtype and capacity determine the bytes alone;
/// they are those of training if all activations are saved.
std::vector<UnitCost> costs(const ModelOptions& options, DType dtype, const Capacity& capacity);

}  // namespace shoal::model
