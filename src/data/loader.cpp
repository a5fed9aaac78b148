// SPDX-License-Identifier: Apache-2.0
#include "shoal/data/loader.hpp"

#include <algorithm>

#include "data/permutation.hpp"
#include "shoal/base/error.hpp"

namespace shoal::data {

SampleOrder::SampleOrder(std::size_t samples, std::size_t global, bool shuffle, bool drop_last, std::uint64_t seed)
    : samples_(samples), global_(global), shuffle_(shuffle), drop_last_(drop_last), seed_(seed) {
  require(samples > 0 && global > 0, "order of ", samples, " samples in batches of ", global);
  require_input(!drop_last || samples >= global, "data.drop_last = true leaves nothing: the training split has ", samples,
                " samples, batch.global is ", global);
  steps_per_epoch_ = drop_last ? samples / global : (samples + global - 1) / global;
}

std::size_t SampleOrder::steps_per_epoch() const { return steps_per_epoch_; }

std::size_t SampleOrder::sample(std::uint64_t step, std::size_t position) const {
  require(position < global_, "position ", position, " in a global batch of ", global_);
  if (!shuffle_ && !drop_last_) return (step * global_ + position) % samples_;
  const std::uint64_t epoch = step / steps_per_epoch_;
  const std::size_t place = (step % steps_per_epoch_) * global_ + position;
  if (!shuffle_) return place;
  return Permutation(samples_, seed_, epoch)(place % samples_);
}

Loader::Loader(const Samples& samples, const SampleOrder& order, std::size_t micro, std::size_t block_size)
    : samples_(samples),
      order_(order),
      micro_(micro),
      block_size_(block_size),
      row_(block_size + 1),
      inputs_(micro * block_size),
      targets_(micro * block_size) {}

Loader::Batch Loader::micro_batch(std::uint64_t step, std::size_t m) {
  const std::size_t first = m * micro_;
  for (std::size_t i = 0; i < micro_; ++i) {
    samples_.read(order_.sample(step, first + i), row_);
    const auto at = static_cast<std::ptrdiff_t>(i * block_size_);
    std::copy(row_.begin(), row_.end() - 1, inputs_.begin() + at);
    std::copy(row_.begin() + 1, row_.end(), targets_.begin() + at);
  }
  return {inputs_, targets_, first};
}

}  // namespace shoal::data
