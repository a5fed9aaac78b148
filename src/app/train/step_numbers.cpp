// SPDX-License-Identifier: Apache-2.0
#include "app/train/step_numbers.hpp"

#include <numeric>

namespace shoal::app {

void StepNumbers::reset(std::size_t micro_batches, bool with_squares) {
  micro_batches_ = micro_batches;
  numbers_.assign((with_squares ? 2 : 1) * micro_batches + 1, 0.0);
}

void StepNumbers::all_reduce(comm::Communicator& ranks, bool& stop) {
  numbers_.back() = stop ? 1.0 : 0.0;
  ranks.all_reduce(Span<double>(numbers_), comm::Reduce::sum).wait();
  stop = numbers_.back() != 0.0;
}

double StepNumbers::sum_of_losses() const {
  return std::accumulate(numbers_.begin(), numbers_.begin() + static_cast<std::ptrdiff_t>(micro_batches_), 0.0);
}

Span<const double> StepNumbers::squares() const {
  return Span<const double>(numbers_).subspan(micro_batches_, numbers_.size() - 1 - micro_batches_);
}

}  // namespace shoal::app
