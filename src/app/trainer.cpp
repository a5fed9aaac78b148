// SPDX-License-Identifier: Apache-2.0
#include "trainer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "evaluate.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/comm/profiled_region.hpp"

namespace shoal::app {

namespace {

trace::Region phase(const char* name) { return {trace::Level::steps, trace::Kind::phase, name}; }

/// The loss scaler's state by name, as a checkpoint keeps it.
std::map<std::string, double> numbers_of(const optim::LossScaler::State& state) {
  return {{"loss_scale/scale", state.scale},
          {"loss_scale/steps_since_overflow", static_cast<double>(state.steps_since_overflow)},
          {"loss_scale/hysteresis_left", static_cast<double>(state.hysteresis_left)}};
}

/// The same from a checkpoint's numbers; nothing if the run that wrote them was not in fp16.
std::optional<optim::LossScaler::State> loss_scale_of(const std::map<std::string, double>& numbers) {
  if (!numbers.contains("loss_scale/scale")) return std::nullopt;
  return optim::LossScaler::State{numbers.at("loss_scale/scale"),
                                  static_cast<std::uint64_t>(numbers.at("loss_scale/steps_since_overflow")),
                                  static_cast<std::uint32_t>(numbers.at("loss_scale/hysteresis_left"))};
}

double seconds_since(std::int64_t begin_ns) { return static_cast<double>(trace::now_ns() - begin_ns) * 1e-9; }

}  // namespace

Trainer::Trainer(const Setup& setup, comm::World& world, Machine& machine)
    : options_(setup.options),
      world_(world),
      groups_(machine.groups),
      engine_(machine.engine),
      synchroniser_(machine.synchroniser ? &*machine.synchroniser : nullptr),
      order_(setup.dataset.train->count(), options_.batch.global, options_.data.shuffle, options_.data.drop_last,
             options_.train.seed),
      loader_(*setup.dataset.train, order_, options_.batch.micro, options_.model.block_size),
      validation_(setup.dataset.validation.get()),
      runner_(machine.runner),
      micro_batches_(setup.engine.micro_batches) {
  if (options_.adascale.on) adascale_.emplace(options_, micro_batches_);
  if (setup.engine.dtype == DType::f16) scaler_.emplace(options_.loss_scale);
}

std::vector<StepReport> Trainer::step(std::int64_t t, const std::function<bool()>& want_stop, bool at_boundary) {
  heartbeat::phase("step");
  trace::set_step(static_cast<std::int32_t>(t + 1));
  const trace::Region whole(trace::Level::steps, trace::Kind::step, "step");
  const comm::ProfiledRegion for_profilers("step");
  const std::int64_t begin = trace::now_ns();
  unexchanged_.push_back(update(t, want_stop));
  if (synchroniser_ != nullptr) {
    synchronise(t);
    // Messages are counted per step, and those of a mean in flight belong to this one: they must not be sent during the
    // evaluation or the checkpoint that follows.
    if (at_boundary) synchroniser_->wait_for_mean();
  }
  unexchanged_.back().seconds = seconds_since(begin);
  if (!at_boundary && !reports_after(t + 1)) return {};
  if (groups_.across.ranks > 1) exchange_reports(world_, groups_, unexchanged_, node_wants_stop_);
  return std::exchange(unexchanged_, {});
}

/// The order of a step on this node. Some communication is hidden in calls of the engine: forward(), backward() and
/// finish_gradients() reduce-scatter the gradients, and update() starts the all-gather of the updated parameters.
StepReport Trainer::update(std::int64_t t, const std::function<bool()>& want_stop) {
  const std::int64_t updates_before = t - skipped_;
  const optim::Rates rates =
      optim::rates(options_.schedule, options_.optimizer, adascale_ ? adascale_->schedule_step() : updates_before);
  const int nodes = nodes_summing_gradients(t);
  prepare_gradients(nodes, updates_before, rates);

  step_ = t;
  runner_.train(*this);
  {
    const auto region = phase("reduce");
    engine_.finish_gradients();
  }
  if (nodes > 1) sum_gradients_over_nodes();

  {
    const auto region = phase("clip");
    engine_.start_gradient_gather();
    engine_.measure();
  }
  StepReport report;
  report.step = t + 1;
  node_wants_stop_ = node_wants_stop_ || want_stop();
  report.loss = all_reduce_losses(nodes, node_wants_stop_);
  report.stop = groups_.across.ranks == 1 && node_wants_stop_;
  zero::Norm norm;
  {
    const auto region = phase("clip");
    norm = engine_.norm();
  }
  report.norm = norm.value;
  report.learning_rate = rates.learning_rate;
  if (updates(report, norm)) {
    report.learning_rate *= scale_rate(report, updates_before, norm);
    engine_.update(norm, {updates_before + 1, report.learning_rate, rates.beta1, rates.beta2, 1.0F});
  } else {
    engine_.discard_gradients();
    ++skipped_;
    report.updated = false;
    if (adascale_) report.effective_steps = adascale_->effective_steps();
  }
  report.last = done(report.step);
  return report;
}

/// Returns the number of nodes whose gradients are summed in this step: all nodes while they warm up, otherwise 1.
int Trainer::nodes_summing_gradients(std::int64_t t) const {
  const bool warms_up = synchroniser_ != nullptr && synchroniser_->schedule().in_warmup(static_cast<std::size_t>(t) + 1);
  return warms_up ? groups_.across.ranks : 1;
}

/// Before the first micro-batch of a step: sets how its gradients are scaled and what is measured of them.
void Trainer::prepare_gradients(int nodes, std::int64_t updates_before, const optim::Rates& rates) {
  engine_.set_gradient_groups(static_cast<std::size_t>(nodes));
  if (adascale_ && adascale_->weighted() && updates_before > 0) engine_.weigh_squares(updates_before, rates.beta2);
  if (scaler_) engine_.scale_losses(scaler_->scale());
  const std::size_t micro_batches = micro_batches_ * static_cast<std::size_t>(nodes);
  per_micro_batch_.assign((adascale_ ? 2 : 1) * micro_batches + 1, 0.0);
}

/// A part in the middle of the model needs no tokens.
void Trainer::forward(int part, std::size_t turn, const pipeline::Borders& borders) {
  const std::size_t m = index_in_step(true, turn);
  model::MicroBatch batch = {options_.batch.micro,
                             options_.model.block_size,
                             {},
                             {},
                             static_cast<std::uint32_t>(step_),
                             static_cast<std::uint32_t>(m * options_.batch.micro)};
  if (borders.in.empty() || borders.out.empty()) load(m, batch);
  engine_.forward(static_cast<std::size_t>(part), turn, batch, flow_of(borders),
                  keeps_activations(options_, turn, engine_.accumulation().turns()));
}

/// A gradient that is complete begins to be reduced meanwhile.
void Trainer::backward(int part, std::size_t turn, const pipeline::Borders& borders) {
  engine_.backward(static_cast<std::size_t>(part), turn, flow_of(borders));
}

int Trainer::first_unit(int part) const { return engine_.first_unit(static_cast<std::size_t>(part)); }

/// Index of this rank's micro-batch among those of this node, or of all nodes.
std::size_t Trainer::index_in_step(bool over_nodes, std::size_t turn) const {
  const zero::AccumulationPlan& accumulation = engine_.accumulation();
  const std::size_t in_node = accumulation.micro_batch_of_turn(turn, groups_.node.rank);
  const auto node = static_cast<std::size_t>(over_nodes ? groups_.across.rank : 0);
  return node * accumulation.micro_batches() + in_node;
}

/// The ranks that make a step together: those of this node if nodes train locally, otherwise all, with all stages.
comm::Communicator& Trainer::in_step() const { return groups_.across.ranks > 1 ? *groups_.node.group : world_.all(); }

/// Writes the losses of this rank's micro-batches, and the squares of their gradients, to per_micro_batch_. All stages of a
/// pipeline have the same micro-batches, and the last one writes.
void Trainer::read_micro_batches(int nodes) {
  if (!knows_losses(world_)) return;
  for (std::size_t turn = 0; turn < engine_.accumulation().turns(); ++turn) {
    const std::size_t index = index_in_step(nodes > 1, turn);  // among those whose gradients are summed
    per_micro_batch_[index] = engine_.loss(turn);
    if (!adascale_) continue;
    const std::size_t of_square = micro_batches_ * static_cast<std::size_t>(nodes) + index;
    per_micro_batch_[of_square] = engine_.square_of_turn(turn);
  }
}

void Trainer::sum_gradients_over_nodes() {
  const auto region = phase("reduce");
  synchroniser_->sum_gradients(
      [&](std::size_t unit, Range range) { return engine_.gradient_shard(static_cast<int>(unit), range); });
}

/// The outer update uses the learning rate of step t, which is the same on all nodes. Their counts of updates may differ,
/// since a node may have skipped some.
void Trainer::synchronise(std::int64_t t) {
  const auto step = static_cast<std::size_t>(t) + 1;
  const bool writes = synchroniser_->writes_masters(step);
  if (writes) engine_.wait_for_parameters();
  synchroniser_->after_step(step, optim::rates(options_.schedule, options_.optimizer, t).learning_rate);
  if (writes) engine_.rebuild_parameters();
}

/// Returns true if nodes exchange their reports after this step: if they synchronize and so wait for each other anyway.
bool Trainer::reports_after(std::int64_t step) const {
  if (groups_.across.ranks == 1) return true;
  const auto steps = static_cast<std::size_t>(step);
  const sync::SyncSchedule& schedule = synchroniser_->schedule();
  return schedule.period() == 0 ? steps % options_.train.log_every == 0 : schedule.synchronizes(steps);
}

/// Gives the batch the tokens of the step's micro-batch m.
void Trainer::load(std::size_t m, model::MicroBatch& batch) {
  const auto region = phase("data");
  const data::Loader::Batch loaded = loader_.micro_batch(static_cast<std::uint64_t>(step_), m);
  batch.inputs = loaded.inputs;
  batch.targets = loaded.targets;
}

/// Returns the mean loss of the step. Each micro-batch's loss (and the square of its gradient) is known to one rank and zero
/// on the others, so the MPI library's sum is exact in any order. The losses are then added in the order of the
/// micro-batches.
double Trainer::all_reduce_losses(int nodes, bool& stop) {
  const auto region = phase("losses");
  read_micro_batches(nodes);
  const std::size_t predictions =
      engine_.model().predictions({options_.batch.micro, options_.model.block_size, {}, {}, 0, 0});
  comm::Communicator& ranks = nodes > 1 ? world_.all() : in_step();
  const std::size_t micro_batches = micro_batches_ * static_cast<std::size_t>(nodes);
  per_micro_batch_.back() = stop ? 1.0 : 0.0;
  ranks.all_reduce(Span<double>(per_micro_batch_), comm::Reduce::sum).wait();
  stop = per_micro_batch_.back() != 0.0;
  double sum = 0;
  for (std::size_t m = 0; m < micro_batches; ++m) sum += per_micro_batch_[m];
  return sum / static_cast<double>(predictions * micro_batches);
}

/// Returns the factor by which AdaScale multiplies the learning rate.
double Trainer::scale_rate(StepReport& report, std::int64_t updates_before, const zero::Norm& norm) {
  if (!adascale_) return 1;
  const Span<const double> squares = Span<const double>(per_micro_batch_).subspan(micro_batches_, micro_batches_);
  const AdaScaling::Step step = adascale_->observe(updates_before, squares, norm.square);
  report.gain = step.gain;
  report.effective_steps = adascale_->effective_steps();
  return step.rate_factor;
}

bool Trainer::done(std::int64_t steps) const {
  const auto total = static_cast<std::int64_t>(options_.train.steps);
  return steps >= total || (adascale_ && adascale_->schedule_step() >= total);
}

/// Returns true if the step's gradients are finite, so that they are applied, and updates the loss scale. All ranks in step
/// have the same loss and norm, so they return the same.
bool Trainer::updates(StepReport& report, const zero::Norm& norm) {
  if (!scaler_) {
    report.broken = broken(report.loss, norm);
    return report.broken.empty();
  }
  report.loss_scale = scaler_->scale();
  report.overflow = !std::isfinite(report.loss) || !std::isfinite(norm.value);
  scaler_->update(report.overflow, report.step);
  return !report.overflow;
}

std::map<std::string, double> Trainer::numbers() const {
  std::map<std::string, double> numbers;
  if (skipped_ > 0 || groups_.across.ranks > 1) numbers["skipped_updates"] = static_cast<double>(skipped_);
  if (adascale_) numbers.merge(adascale_->numbers());
  if (scaler_) numbers.merge(numbers_of(scaler_->state()));
  return groups_.across.ranks > 1 ? gather_numbers(world_, groups_, numbers) : numbers;
}

void Trainer::restore(std::int64_t steps, const std::map<std::string, double>& all) {
  const std::map<std::string, double> numbers = numbers_of_node(all, groups_);
  if (adascale_) adascale_->restore(steps, numbers);
  skipped_ = numbers.contains("skipped_updates") ? static_cast<std::int64_t>(numbers.at("skipped_updates")) : 0;
  if (const auto state = loss_scale_of(numbers); scaler_ && state) scaler_->restore(*state);
}

/// If the loss or the norm is not finite, returns a text that names it and the first unit with parameters, or a gradient,
/// that are not finite. Otherwise returns an empty text.
std::string Trainer::broken(double loss, const zero::Norm& norm) {
  if (std::isfinite(loss) && std::isfinite(norm.value)) return {};
  std::vector<std::int64_t> damaged = {engine_.states().first_not_finite()};  // each rank sees its own shards of its units
  in_step().all_reduce(Span<std::int64_t>(damaged), comm::Reduce::min).wait();
  const auto unit = static_cast<std::size_t>(damaged.front());
  const std::string where =
      unit < engine_.units().size() ? "parameters of unit " + engine_.units()[unit].name + " are not finite"
      : norm.non_finite_unit >= 0
          ? "gradient of unit " + engine_.units()[static_cast<std::size_t>(norm.non_finite_unit)].name + " is not finite"
          : "all parameters and gradients are finite";
  return (std::isfinite(loss) ? "the gradient norm is " + std::to_string(norm.value)
                              : "the loss is " + std::to_string(loss)) +
         " (" + where + ")";
}

double Trainer::evaluate(std::int64_t steps) {
  const auto region = phase("evaluate");
  heartbeat::phase("evaluate");
  const bool differ =
      synchroniser_ != nullptr && synchroniser_->schedule().nodes_differ_after(static_cast<std::size_t>(steps));
  if (differ) {
    engine_.wait_for_parameters();
    synchroniser_->swap_in_mean();
    engine_.rebuild_parameters();
  }
  const double loss = app::evaluate(world_, engine_, runner_, *validation_, options_.batch.micro, options_.model.block_size,
                                    options_.train.eval_batches * options_.batch.global);
  if (differ) {
    engine_.wait_for_parameters();
    synchroniser_->restore_own();
    engine_.rebuild_parameters();
  }
  return loss;
}

}  // namespace shoal::app
