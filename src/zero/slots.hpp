// SPDX-License-Identifier: Apache-2.0
// Which turns of a part are between their forward and their backward pass, and in which slot the model keeps the activations
// of each.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "shoal/model/part.hpp"

namespace shoal::zero {

class Slots {
 public:
  explicit Slots(const model::Part& part) : turns_(part.slots), whole_(part.whole_slots) {}

  /// The turn's forward pass begins: returns the lowest free slot, of those that keep all activations if `whole`, otherwise
  /// of the others. fail() if there is none.
  std::size_t take(std::size_t turn, bool whole);
  /// Its backward pass begins: returns its slot, which is free from now on.
  std::size_t release(std::size_t turn);

  bool is_whole(std::size_t slot) const { return slot < whole_; }
  bool all_free() const;

 private:
  std::vector<std::optional<std::size_t>> turns_;  // by slot
  std::size_t whole_;                              // slots below this one keep all activations
};

}  // namespace shoal::zero
