// SPDX-License-Identifier: Apache-2.0
// The items of a schedule (zero/step_schedule.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal::zero {

/// Kinds of messages, and what numbers those of a kind.
enum class MessageKind : std::uint8_t {
  gather,            ///< parameters before their use: the unit
  reduce,            ///< gradients: the bucket of StepSchedule::reduced()
  gather_gradients,  ///< after they are reduced, if every rank updates all units: the bucket of gathered_gradients()
  publish,           ///< updated parameters: the bucket of published()
  losses,            ///< numbers of all micro-batches
  norm,              ///< sums for the gradient's norm
  // Of units that the first and the last stage of a pipeline both have (zero/tied_copies.hpp), between these two:
  copied_gradients,   ///< of the copies
  copied_parameters,  ///< of the originals, after their update
};
inline constexpr std::size_t message_kinds = 8;

struct StepItem {
  enum class Kind : std::uint8_t {
    compute,  ///< a use of units; `number` is its index in the pass. A use of backward that first computes activations again
              ///< is one item, placed after the recomputation
    update,   ///< norm and optimizer
    start,    ///< of a message
    wait,     ///< for a message. Messages of a kind end in the order in which they started, so it is the oldest of its kind
    exchange  ///< of all copied units, with the other end of a pipeline; awaited at once
  };
  enum class Pass : std::uint8_t { forward, backward, recomputing_backward };
  Kind kind = Kind::compute;
  Pass pass = Pass::forward;  ///< compute
  std::uint16_t part = 0;     ///< compute: index in EngineOptions::parts
  MessageKind message = MessageKind::gather;
  bool near = false;  ///< start of a gather: from the second partition (hpZ), not from all ranks
  std::size_t number = 0;
  bool operator==(const StepItem&) const = default;
};
using StepItems = std::vector<StepItem>;

}  // namespace shoal::zero
