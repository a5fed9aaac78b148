// SPDX-License-Identifier: Apache-2.0
// The order of what follows the last backward pass of a step. It is one list for all who go through it: the ranks of a run
// execute it (app/train/end_of_step_executor.hpp), and `shoal plan` prices it (step_schedule.hpp).
#pragma once

#include <array>
#include <cstdint>

namespace shoal::zero {

/// A call that every rank makes at the end of a step.
enum class EndCall : std::uint8_t {
  finish_gradients,       ///< waits for the last reductions; the gradients of copied units are added to their originals'
  start_gradient_gather,  ///< stage 0 alone; it is in flight until the update
  exchange_losses,        ///< numbers of all micro-batches
  exchange_norm,
  update,   ///< waits for the gather of gradients; the optimizer
  publish,  ///< copied units get the new parameters; the all-gather of updated parameters starts
};
/// All of them, in their order.
inline constexpr std::array end_of_step = {EndCall::finish_gradients, EndCall::start_gradient_gather,
                                           EndCall::exchange_losses,  EndCall::exchange_norm,
                                           EndCall::update,           EndCall::publish};

}  // namespace shoal::zero
