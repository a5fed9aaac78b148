// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shoal/device/memory.hpp"

namespace shoal::device {

/// Buffers on the device, and staging memory (tokens) to look at them.
struct Buffers {
  explicit Buffers(Memory& memory)
      : x(memory.take<float>(Kind::gradients, 64, "weights", Use::messages)),
        sums(memory.take<float>(Kind::buffers, 64, "sums")),
        y(memory.take<float>(Kind::buffers, 64, "messages")),
        tokens(memory.take<float>(Kind::staging, 64, "tokens")) {}
  Span<float> x, sums, y, tokens;
};

inline Ledger planned() {
  Memory counting(images());
  const Buffers buffers(counting);
  return counting.taken();
}

}  // namespace shoal::device
