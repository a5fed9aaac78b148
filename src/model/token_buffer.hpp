// SPDX-License-Identifier: Apache-2.0
// The tokens of micro-batches on their way to the device.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/device/queue.hpp"

namespace shoal::model {

/// A copy to the device is only enqueued, and its source must not change before it is done. So each micro-batch of a step
/// has staging memory of its own, and the host need not wait for the device within a step. On the device there is one
/// buffer per slot: the kernels of the slot's micro-batch come before the next copy.
class TokenBuffer {
 public:
  TokenBuffer() = default;
  /// most: the most tokens of a micro-batch. micro_batches: those of a step.
  TokenBuffer(Memory& memory, std::size_t most, std::size_t slots, std::size_t micro_batches);

  /// Staging memory for the next micro-batch, of this many tokens, for the host to write.
  Span<std::int32_t> next(std::size_t tokens);
  /// Enqueues the copy of what was written to next(). Returns its address on the device, which is the same for all
  /// micro-batches of the slot.
  const std::int32_t* upload(std::size_t slot);

 private:
  std::size_t most_ = 0;
  std::vector<Span<std::int32_t>> on_device_;  // by slot
  Span<std::int32_t> staging_, filling_;
  std::vector<device::Event> copied_;  // by place in the staging memory
  std::size_t place_ = 0;
};

}  // namespace shoal::model
