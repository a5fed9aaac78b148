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
      computed_(setup, groups_, engine_),
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

/// The order of a step on this node. Some communication is hidden in calls: train() makes the forward and backward passes of
/// all micro-batches, which send borders between stages of a pipeline and reduce-scatter the gradients, as
/// finish_gradients() does; and update() starts the all-gather of the updated parameters.
StepReport Trainer::update(std::int64_t t, const std::function<bool()>& want_stop) {
  const std::int64_t updates_before = t - skipped_;
  const optim::Rates rates =
      optim::rates(options_.schedule, options_.optimizer, adascale_ ? adascale_->schedule_step() : updates_before);
  const int nodes = nodes_summing_gradients(t);
  prepare_gradients(nodes, updates_before, rates);

  computed_.begin_step(t);
  runner_.train(computed_);
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
  numbers_of_step_.reset(micro_batches_ * static_cast<std::size_t>(nodes), adascale_.has_value());
}

/// The ranks that make a step together: those of this node if nodes train locally, otherwise all, with all stages.
comm::Communicator& Trainer::in_step() const { return groups_.across.ranks > 1 ? *groups_.node.group : world_.all(); }

/// Reads the losses of this rank's micro-batches, and the squares of their gradients. All stages of a pipeline have the same
/// micro-batches; the last one tells the numbers.
void Trainer::read_micro_batches(int nodes) {
  if (!knows_losses(world_)) return;
  for (std::size_t turn = 0; turn < computed_.turns(); ++turn) {
    // Among those whose gradients are summed.
    const std::size_t index = nodes > 1 ? computed_.index_in_step(turn) : computed_.index_in_node(turn);
    numbers_of_step_.set_loss(index, engine_.loss(turn));
    if (adascale_) numbers_of_step_.set_square(index, engine_.square_of_turn(turn));
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

/// Returns the mean loss of the step. stop: whether this rank wants to; afterwards, whether a rank that makes this step
/// does.
double Trainer::all_reduce_losses(int nodes, bool& stop) {
  const auto region = phase("losses");
  read_micro_batches(nodes);
  const std::size_t predictions =
      engine_.model().predictions({options_.batch.micro, options_.model.block_size, {}, {}, 0, 0});
  comm::Communicator& ranks = nodes > 1 ? world_.all() : in_step();
  numbers_of_step_.all_reduce(ranks, stop);
  return numbers_of_step_.sum_of_losses() /
         static_cast<double>(predictions * micro_batches_ * static_cast<std::size_t>(nodes));
}

/// Returns the factor by which AdaScale multiplies the learning rate.
double Trainer::scale_rate(StepReport& report, std::int64_t updates_before, const zero::Norm& norm) {
  if (!adascale_) return 1;
  const AdaScaling::Step step = adascale_->observe(updates_before, numbers_of_step_.squares(), norm.square);
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
