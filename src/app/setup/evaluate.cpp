// SPDX-License-Identifier: Apache-2.0
#include "app/setup/evaluate.hpp"

#include <algorithm>
#include <vector>

#include "app/setup/pipeline_setup.hpp"
#include "app/setup/rank_layout.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/device/timing.hpp"

namespace shoal::app {

namespace {

/// The batches of one data-parallel rank, a turn each. A rank that has no batch of its own in the last turn computes the
/// last batch, too, since gathering parameters is collective.
class Evaluation final : public pipeline::Stage {
 public:
  Evaluation(comm::World& world, zero::Engine& engine, const data::Samples& samples, std::size_t micro,
             std::size_t block_size, std::size_t most)
      : engine_(engine),
        samples_(samples),
        micro_(micro),
        block_size_(block_size),
        count_(most == 0 ? samples.count() : std::min(most, samples.count())),
        ranks_(static_cast<std::size_t>(world.data().size())),
        rank_(static_cast<std::size_t>(world.data().rank())),
        counts_(knows_losses(world)),
        losses_((count_ + micro - 1) / micro, 0.0),
        row_(block_size + 1) {}

  std::size_t turns() const { return (losses_.size() + ranks_ - 1) / ranks_; }
  /// By batch; zero for those of other ranks, and on the ranks that do not know losses.
  Span<double> losses() { return losses_; }
  double predictions() {
    double sum = 0;
    for (std::size_t b = 0; b < losses_.size(); ++b) {
      sum += static_cast<double>(engine_.model().predictions({sequences(b), block_size_, {}, {}, 0, 0}));
    }
    return sum;
  }

  void forward(int part, std::size_t turn, const pipeline::Borders& borders) override {
    const std::size_t own = turn * ranks_ + rank_, batch = std::min(own, losses_.size() - 1);
    if (borders.in.empty() || borders.out.empty()) read(batch);
    engine_.evaluate(static_cast<std::size_t>(part),
                     {sequences(batch), block_size_, inputs_, targets_, 0, static_cast<std::uint32_t>(batch * micro_)},
                     flow_of(borders));
    if (borders.out.empty()) {
      const double loss = engine_.evaluated_loss();
      if (counts_ && own == batch) losses_[own] = loss;
    }
    device::read_spans();
  }
  void backward(int /*part*/, std::size_t /*turn*/, const pipeline::Borders& /*borders*/) override {
    fail("an evaluation has no backward pass");
  }

 private:
  std::size_t sequences(std::size_t batch) const { return std::min(count_, (batch + 1) * micro_) - batch * micro_; }
  void read(std::size_t batch) {
    inputs_.clear();
    targets_.clear();
    const std::size_t first = batch * micro_;
    for (std::size_t s = first; s < first + sequences(batch); ++s) {
      samples_.read(s, row_);
      inputs_.insert(inputs_.end(), row_.begin(), row_.end() - 1);
      targets_.insert(targets_.end(), row_.begin() + 1, row_.end());
    }
  }

  zero::Engine& engine_;
  const data::Samples& samples_;
  std::size_t micro_, block_size_, count_, ranks_, rank_;
  bool counts_;
  std::vector<double> losses_;
  std::vector<std::int32_t> row_, inputs_, targets_;
};

}  // namespace

double evaluate(comm::World& world, zero::Engine& engine, pipeline::Runner& runner, const data::Samples& samples,
                std::size_t micro, std::size_t block_size, std::size_t most) {
  Evaluation evaluation(world, engine, samples, micro, block_size, most);
  runner.evaluate(evaluation.turns(), evaluation);
  world.all().all_reduce(evaluation.losses(), comm::Reduce::sum).wait();
  double sum = 0;
  for (const double loss : evaluation.losses()) sum += loss;
  return sum / evaluation.predictions();
}

}  // namespace shoal::app
