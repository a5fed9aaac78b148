// SPDX-License-Identifier: Apache-2.0
#include "trainer.hpp"

#include <algorithm>
#include <cmath>

#include "shoal/base/heartbeat.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::app {

namespace {

trace::Region phase(const char* name) { return {trace::Level::steps, trace::Kind::phase, name}; }

double seconds_since(std::int64_t begin_ns) { return static_cast<double>(trace::now_ns() - begin_ns) * 1e-9; }

}  // namespace

Trainer::Trainer(const Setup& setup, comm::World& world, zero::Engine& engine)
    : options_(setup.options),
      world_(world),
      engine_(engine),
      order_(setup.dataset.train->count(), options_.batch.global, options_.data.shuffle, options_.data.drop_last,
             options_.train.seed),
      loader_(*setup.dataset.train, order_, options_.batch.micro, options_.model.block_size),
      validation_(setup.dataset.validation.get()),
      losses_(setup.engine.micro_batches + 1) {}

StepReport Trainer::step(std::int64_t t, const std::function<bool()>& want_stop) {
  heartbeat::phase("step");
  trace::set_step(static_cast<std::int32_t>(t + 1));
  const trace::Region whole(trace::Level::steps, trace::Kind::step, "step");
  const std::int64_t begin = trace::now_ns();
  const zero::Turns& turns = engine_.turns();
  const optim::Rates rates = optim::rates(options_.schedule, options_.optimizer, t);
  std::size_t predictions = 0;
  std::fill(losses_.begin(), losses_.end(), 0.0);

  for (std::size_t round = 0; round < turns.rounds; ++round) {
    for (std::size_t turn = 0; turn < turns.per_round; ++turn) {  // gradient accumulation
      const std::size_t m = turns.micro_batch(round, turn, world_.all().rank());
      trace::set_micro(static_cast<std::int16_t>(m));
      const model::MicroBatch batch = load(t, m);
      predictions = engine_.model().predictions(batch);
      losses_[m] = engine_.micro_batch(round, turn, batch);  // forward and backward; reduction starts on the way
    }
    const auto region = phase("reduce");
    engine_.finish_round();
  }
  trace::set_micro(-1);

  StepReport report;
  report.step = t + 1;
  report.learning_rate = rates.learning_rate;
  report.stop = world_.all().rank() == 0 && want_stop();
  report.loss = share_losses(predictions, report.stop);
  zero::Norm norm;
  {
    const auto region = phase("clip");
    norm = engine_.norm();
  }
  report.norm = norm.value;
  report.broken = broken(report.loss, norm);
  if (report.broken.empty()) {
    engine_.update(norm, {t + 1, rates.learning_rate, rates.beta1, rates.beta2, 1.0F});
  } else {
    engine_.skip();
  }
  report.seconds = seconds_since(begin);
  return report;
}

model::MicroBatch Trainer::load(std::int64_t t, std::size_t m) {
  const auto region = phase("data");
  const data::Loader::Batch batch = loader_.micro_batch(static_cast<std::uint64_t>(t), m);
  return {options_.batch.micro, options_.model.block_size,     batch.inputs,
          batch.targets,        static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(batch.first_sample)};
}

/// Each micro-batch's loss is known to one rank, zero elsewhere: so the library's sum is exact, whatever its order. Added in
/// the order of the micro-batches.
double Trainer::share_losses(std::size_t predictions, bool& stop) {
  const auto region = phase("losses");
  losses_.back() = stop ? 1.0 : 0.0;
  world_.all().all_reduce(Span<double>(losses_), comm::Reduce::sum).wait();
  stop = losses_.back() != 0.0;
  double sum = 0;
  for (std::size_t m = 0; m + 1 < losses_.size(); ++m) sum += losses_[m];
  return sum / static_cast<double>(predictions * (losses_.size() - 1));
}

/// Names where a value that is not finite came from, as far as this can be told after the fact.
std::string Trainer::broken(double loss, const zero::Norm& norm) {
  if (std::isfinite(loss) && std::isfinite(norm.value)) return {};
  std::vector<std::int64_t> damaged = {engine_.states().first_not_finite()};  // each rank sees its own shards
  world_.all().all_reduce(Span<std::int64_t>(damaged), comm::Reduce::min).wait();
  const auto unit = static_cast<std::size_t>(damaged.front());
  const std::string where =
      unit < engine_.units().size() ? "parameters of unit " + engine_.units()[unit].name + " are not finite"
      : norm.broken_unit >= 0
          ? "gradient of unit " + engine_.units()[static_cast<std::size_t>(norm.broken_unit)].name + " is not finite"
          : "all parameters and gradients are finite";
  return (std::isfinite(loss) ? "the gradient norm is " + std::to_string(norm.value)
                              : "the loss is " + std::to_string(loss)) +
         " (" + where + ")";
}

double Trainer::evaluate() {
  const auto region = phase("evaluate");
  heartbeat::phase("evaluate");
  return app::evaluate(world_.all(), engine_, *validation_, options_.batch.micro, options_.model.block_size,
                       options_.train.eval_batches * options_.batch.global);
}

double evaluate(comm::Communicator& group, zero::Engine& engine, const data::Samples& samples, std::size_t micro,
                std::size_t block_size, std::size_t most) {
  const std::size_t count = most == 0 ? samples.count() : std::min(most, samples.count());
  const std::size_t batches = (count + micro - 1) / micro;
  const auto size = static_cast<std::size_t>(group.size()), rank = static_cast<std::size_t>(group.rank());
  std::vector<double> losses(batches, 0.0);
  std::vector<std::int32_t> row(block_size + 1), inputs, targets;
  double predictions = 0;
  for (std::size_t first_batch = 0; first_batch < batches; first_batch += size) {
    // A rank that is left without a batch in the last turn computes the last one too: all ranks gather parameters together.
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
    if (first_batch + rank < batches) losses[own] = loss;
    heartbeat::beat();
  }
  for (std::size_t b = 0; b < batches; ++b) {
    const std::size_t sequences = std::min(count, (b + 1) * micro) - b * micro;
    predictions += static_cast<double>(engine.model().predictions({sequences, block_size, {}, {}, 0, 0}));
  }
  group.all_reduce(Span<double>(losses), comm::Reduce::sum).wait();
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum / predictions;
}

}  // namespace shoal::app
