// SPDX-License-Identifier: Apache-2.0
#include "zero/slots.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"

namespace shoal::zero {

std::size_t Slots::take(std::size_t turn, bool whole) {
  const std::size_t begin = whole ? 0 : whole_, end = whole ? whole_ : turns_.size();
  for (std::size_t slot = begin; slot < end; ++slot) {
    if (turns_[slot]) continue;
    turns_[slot] = turn;
    return slot;
  }
  fail("the forward pass of turn ", turn, " finds none of ", end - begin, " slots free, for ",
       whole ? "all activations" : "the inputs of segments", ": their backward passes must come first");
}

std::size_t Slots::release(std::size_t turn) {
  const auto slot = std::find(turns_.begin(), turns_.end(), turn);
  require(slot != turns_.end(), "the backward pass of turn ", turn, " comes without its forward pass");
  slot->reset();
  return static_cast<std::size_t>(slot - turns_.begin());
}

bool Slots::all_free() const {
  return std::none_of(turns_.begin(), turns_.end(), [](const auto& turn) { return turn.has_value(); });
}

}  // namespace shoal::zero
