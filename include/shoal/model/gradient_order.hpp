// SPDX-License-Identifier: Apache-2.0
// Which gradients a pass completes in which of its uses: the guarantees of unit_access.hpp, as data.
#pragma once

#include <vector>

#include "shoal/model/model.hpp"

namespace shoal::model {

/// By use, and as the last entry after all uses: the units whose gradients are completed then, in order.
using GradientOrder = std::vector<std::vector<int>>;

/// Of the forward pass of a part with this order (UseOrders::forward): the head's, and before it that of its copy of the
/// embedding.
GradientOrder gradients_of_forward(const UseOrder& uses, const std::vector<UnitLayout>& units, const Part& part);
/// Of a backward pass: each unit's in its last use, and the embedding's after all uses.
GradientOrder gradients_of_backward(const UseOrder& uses, const Part& part);

}  // namespace shoal::model
