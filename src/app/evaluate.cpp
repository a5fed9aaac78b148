// SPDX-License-Identifier: Apache-2.0
#include "evaluate.hpp"

#include <algorithm>
#include <vector>

#include "division.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/device/timing.hpp"

namespace shoal::app {

double evaluate(comm::World& world, zero::Engine& engine, const data::Samples& samples, std::size_t micro,
                std::size_t block_size, std::size_t most) {
  const std::size_t count = most == 0 ? samples.count() : std::min(most, samples.count());
  const std::size_t batches = (count + micro - 1) / micro;
  const auto size = static_cast<std::size_t>(world.data().size()), rank = static_cast<std::size_t>(world.data().rank());
  const bool counts = knows_losses(world);
  std::vector<double> losses(batches, 0.0);
  std::vector<std::int32_t> row(block_size + 1), inputs, targets;
  double predictions = 0;
  for (std::size_t first_batch = 0; first_batch < batches; first_batch += size) {
    // A rank that has no batch of its own in the last round computes the last batch, too, since gathering parameters is
    // collective.
    const std::size_t own = std::min(first_batch + rank, batches - 1);
    inputs.clear();
    targets.clear();
    const std::size_t first = own * micro, last = std::min(count, first + micro);
    for (std::size_t s = first; s < last; ++s) {
      samples.read(s, row);
      inputs.insert(inputs.end(), row.begin(), row.end() - 1);
      targets.insert(targets.end(), row.begin() + 1, row.end());
    }
    const double loss = engine.evaluate({last - first, block_size, inputs, targets, 0, static_cast<std::uint32_t>(first)});
    if (counts && first_batch + rank < batches) losses[own] = loss;
    device::read_spans();
    heartbeat::beat();
  }
  for (std::size_t b = 0; b < batches; ++b) {
    const std::size_t sequences = std::min(count, (b + 1) * micro) - b * micro;
    predictions += static_cast<double>(engine.model().predictions({sequences, block_size, {}, {}, 0, 0}));
  }
  world.all().all_reduce(Span<double>(losses), comm::Reduce::sum).wait();
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum / predictions;
}

}  // namespace shoal::app
