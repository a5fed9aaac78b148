// SPDX-License-Identifier: Apache-2.0
// The passes that a rank makes through the parts of the model that it computes: each has an order of uses, for which gathers
// are planned (gather_plan.hpp).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "shoal/model/model.hpp"

namespace shoal::zero {

/// Indices of passes.
struct PassesOfPart {
  std::size_t evaluation = 0, forward = 0;
  /// Of a slot that keeps all activations, and of one that does not. None: there is no such slot, or the backward pass
  /// continues the pass of forward, which it follows at once.
  std::optional<std::size_t> backward = {}, recomputing_backward = {};
};

struct Passes {
  std::vector<model::UseOrder> orders;  ///< by pass
  std::vector<PassesOfPart> of_part;
};

/// capacity: without a part. In one part with one slot, each backward pass follows its forward pass at once. Then both are
/// one pass: it gathers the first units of backward during forward, and keeps those that both need.
Passes passes_of(const model::ModelOptions& options, const model::Capacity& capacity, const std::vector<model::Part>& parts);

}  // namespace shoal::zero
