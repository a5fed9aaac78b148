// SPDX-License-Identifier: Apache-2.0
// One all-reduce per step: losses, squares of gradients for AdaScale, and the request to stop.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal::app {

/// The loss of each micro-batch of the step; with AdaScale the square of the norm of its gradient; and whether a rank wants
/// the run to stop. Each loss and square is known to one rank, and zero on the others, so the MPI library's sum is exact in
/// any order.
class StepNumbers {
 public:
  /// Begins a step of this many micro-batches: all that this rank knows is zero.
  void reset(std::size_t micro_batches, bool with_squares);
  void set_loss(std::size_t micro_batch, double loss) { numbers_[micro_batch] = loss; }
  void set_square(std::size_t micro_batch, double square) { numbers_[micro_batches_ + micro_batch] = square; }

  /// Collective over these ranks. stop: whether this rank wants to; afterwards, whether any does.
  void all_reduce(comm::Communicator& ranks, bool& stop);

  /// Added in the order of the micro-batches, so that the sum has the same bits on any number of ranks.
  double sum_of_losses() const;
  /// By micro-batch; empty if the step has none.
  Span<const double> squares() const;

 private:
  std::size_t micro_batches_ = 0;
  std::vector<double> numbers_;  // losses, squares, and whether to stop
};

}  // namespace shoal::app
