// SPDX-License-Identifier: Apache-2.0
// Numbers that kernels compute and the host reads once in a step: losses, sums of squares.
#pragma once

#include <cstddef>

#include "shoal/base/memory.hpp"
#include "shoal/device/queue.hpp"

namespace shoal::device {

class Cells {
 public:
  Cells() = default;  ///< none
  /// Takes the cells from Kind::buffers and the host's copy of them from Kind::staging. `memory` must outlive this. label:
  /// for reports and messages, of both; it is copied.
  Cells(Memory& memory, std::size_t count, const char* label);

  std::size_t size() const { return cells_.size(); }
  /// The device's memory of the cells. Zero at first.
  Span<double> cells() const { return cells_; }
  double* cell(std::size_t index) const { return cells_.data() + index; }

  /// Enqueues a copy of all cells to the host.
  void fetch();
  /// The numbers as of the last fetch(), valid after the host has waited for an event behind it, until the next one.
  Span<double> values() const { return values_; }

 private:
  Span<double> cells_, values_;
};

/// Waits until everything that is on the current queue now is done.
void wait_for_queue();
/// Waits until everything that is on any queue now is done. waits() counts one wait.
void wait_for_device();

}  // namespace shoal::device
