// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "shoal/model/model.hpp"

namespace shoal::model {

/// What a part has of a model whose units are an embedding, the layers and a head.
struct PartLayers {
  bool embedding, head;
  Range layers;  ///< [begin, end) of the model's layers, counted from 0

  std::size_t count() const { return layers.size(); }
  bool is_whole() const { return embedding && head; }
};

/// The two borders of a Flow in forward and evaluation, or in backward: each is null if the part ends the model there.
/// fail() if they are not.
void check_forward(const PartLayers& part, const Flow& flow);
void check_backward(const PartLayers& part, const Flow& flow);

enum class Pass { forward, evaluation, backward };
/// The same for what the skip connection carries; skips: whether the model has one.
void check_skip(const PartLayers& part, const Flow& flow, bool skips, Pass pass);

/// fail() if the part has no layer, units that the model does not have, a part of the head's units, or no slot.
PartLayers layers_of(const Part& part, std::size_t layers_of_model, std::size_t units_of_head = 1);

}  // namespace shoal::model
