// SPDX-License-Identifier: Apache-2.0
#include "app/train/end_of_step_executor.hpp"

#include <cmath>
#include <utility>

#include "shoal/base/trace.hpp"

namespace shoal::app {

namespace {

trace::Region phase(const char* name) { return {trace::Level::steps, trace::Kind::phase, name}; }

}  // namespace

EndOfStepExecutor::EndOfStepExecutor(const ResolvedRun& resolved, comm::World& world, Assembly& assembly,
                                     const MicroBatches& computed, Updates& updates)
    : options_(resolved.options),
      world_(world),
      groups_(assembly.groups),
      engine_(assembly.engine),
      synchroniser_(assembly.synchroniser ? &*assembly.synchroniser : nullptr),
      computed_(computed),
      updates_(updates),
      micro_batches_(resolved.engine.micro_batches) {}

void EndOfStepExecutor::begin_step(std::int64_t t, int nodes, std::function<bool()> want_stop) {
  nodes_ = nodes;
  want_stop_ = std::move(want_stop);
  numbers_.reset(micro_batches_ * static_cast<std::size_t>(nodes), updates_.needs_squares());
  report_ = {};
  report_.step = t + 1;
}

void EndOfStepExecutor::execute(zero::EndCall call) {
  switch (call) {
    case zero::EndCall::finish_gradients: return finish_gradients();
    case zero::EndCall::start_gradient_gather: return start_gradient_gather();
    case zero::EndCall::exchange_losses: return exchange_losses();
    case zero::EndCall::exchange_norm: return exchange_norm();
    case zero::EndCall::update: return update();
    case zero::EndCall::publish:
      if (report_.updated) engine_.publish();
      return;
  }
}

void EndOfStepExecutor::finish_gradients() {
  {
    const auto region = phase("reduce");
    engine_.finish_gradients();
  }
  if (nodes_ == 1) return;
  const auto region = phase("reduce");
  synchroniser_->sum_gradients(
      [&](std::size_t unit, Range range) { return engine_.gradient_shard(static_cast<int>(unit), range); });
}

void EndOfStepExecutor::start_gradient_gather() {
  const auto region = phase("clip");
  engine_.start_gradient_gather();
  engine_.measure();
}

void EndOfStepExecutor::exchange_losses() {
  node_wants_stop_ = node_wants_stop_ || want_stop_();
  const auto region = phase("losses");
  read_micro_batches();
  const std::size_t predictions =
      engine_.model().predictions({options_.batch.micro, options_.model.block_size, {}, {}, 0, 0});
  numbers_.all_reduce(nodes_ > 1 ? world_.all() : in_step(), node_wants_stop_);
  report_.loss =
      numbers_.sum_of_losses() / static_cast<double>(predictions * micro_batches_ * static_cast<std::size_t>(nodes_));
  report_.stop = groups_.across.ranks == 1 && node_wants_stop_;
}

void EndOfStepExecutor::exchange_norm() {
  const auto region = phase("clip");
  norm_ = engine_.norm();
}

void EndOfStepExecutor::update() {
  if (const auto step = updates_.decide(norm_, numbers_.squares(), report_)) {
    engine_.update(norm_, *step);
  } else {
    if (!report_.overflow) report_.broken = broken();
    engine_.discard_gradients();
  }
  engine_.scale_losses(updates_.loss_scale());  // a checkpoint holds this scale, and residuals of it
}

/// The ranks that make a step together: those of this node if nodes train locally, otherwise all, with all stages.
comm::Communicator& EndOfStepExecutor::in_step() const {
  return groups_.across.ranks > 1 ? *groups_.node.group : world_.all();
}

/// Reads the losses of this rank's micro-batches, and the squares of their gradients. All stages of a pipeline have the same
/// micro-batches; the last one tells the numbers.
void EndOfStepExecutor::read_micro_batches() {
  if (!knows_losses(world_)) return;
  for (std::size_t turn = 0; turn < computed_.turns(); ++turn) {
    // Among those whose gradients are summed.
    const std::size_t index = nodes_ > 1 ? computed_.index_in_step(turn) : computed_.index_in_node(turn);
    numbers_.set_loss(index, engine_.loss(turn));
    if (updates_.needs_squares()) numbers_.set_square(index, engine_.square_of_turn(turn));
  }
}

/// The loss or the norm is not finite: returns a text that names it and the first unit with parameters, or a gradient, that
/// are not finite. Collective over the ranks in step, which all have the same loss and norm.
std::string EndOfStepExecutor::broken() {
  std::vector<std::int64_t> damaged = {engine_.states().first_not_finite()};  // each rank sees its own shards of its units
  in_step().all_reduce(Span<std::int64_t>(damaged), comm::Reduce::min).wait();
  const auto unit = static_cast<std::size_t>(damaged.front());
  const std::string where =
      unit < engine_.units().size() ? "parameters of unit " + engine_.units()[unit].name + " are not finite"
      : norm_.non_finite_unit >= 0
          ? "gradient of unit " + engine_.units()[static_cast<std::size_t>(norm_.non_finite_unit)].name + " is not finite"
          : "all parameters and gradients are finite";
  return (std::isfinite(report_.loss) ? "the gradient norm is " + std::to_string(norm_.value)
                                      : "the loss is " + std::to_string(report_.loss)) +
         " (" + where + ")";
}

}  // namespace shoal::app
