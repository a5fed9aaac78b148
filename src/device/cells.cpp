// SPDX-License-Identifier: Apache-2.0
#include "shoal/device/cells.hpp"

namespace shoal::device {

Cells::Cells(Memory& memory, std::size_t count, const char* label)
    : cells_(memory.take<double>(Kind::buffers, count, label)), values_(memory.take<double>(Kind::staging, count, label)) {}

void Cells::fetch() { copy(cells_.size_bytes(), cells_.data(), values_.data()); }

void wait_for_queue() {
  Event end;
  end.record();
  end.wait();
}

void wait_for_device() {
  for (std::size_t q = 0; q < queues; ++q) {
    Event end;
    {
      const OnQueue there(static_cast<Queue>(q));
      end.record();
    }
    end.before_what_follows();
  }
  wait_for_queue();
}

}  // namespace shoal::device
