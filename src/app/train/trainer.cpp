// SPDX-License-Identifier: Apache-2.0
#include "app/train/trainer.hpp"

#include <algorithm>
#include <utility>

#include "app/setup/evaluate.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/comm/profiled_region.hpp"
#include "shoal/optim/schedule.hpp"
#include "shoal/zero/end_of_step.hpp"

namespace shoal::app {

namespace {

double seconds_since(std::int64_t begin_ns) { return static_cast<double>(trace::now_ns() - begin_ns) * 1e-9; }

}  // namespace

Trainer::Trainer(const ResolvedRun& resolved, comm::World& world, Assembly& assembly)
    : options_(resolved.options),
      world_(world),
      groups_(assembly.groups),
      engine_(assembly.engine),
      synchroniser_(assembly.synchroniser ? &*assembly.synchroniser : nullptr),
      computed_(resolved, groups_, engine_),
      validation_(resolved.dataset.validation.get()),
      runner_(assembly.runner),
      updates_(resolved),
      end_of_step_(resolved, world, assembly, computed_, updates_) {}

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
  if (groups_.across.ranks > 1) exchange_reports(world_, groups_, unexchanged_, end_of_step_.node_wants_stop());
  return std::exchange(unexchanged_, {});
}

/// The order of a step on this node. Some communication is hidden in calls: train() makes the forward and backward passes of
/// all micro-batches, which send borders between stages of a pipeline and reduce-scatter the gradients.
StepReport Trainer::update(std::int64_t t, const std::function<bool()>& want_stop) {
  const int nodes = nodes_summing_gradients(t);
  engine_.set_gradient_groups(static_cast<std::size_t>(nodes));
  updates_.begin_step(t, engine_);
  end_of_step_.begin_step(t, nodes, want_stop);
  computed_.begin_step(t);
  runner_.train(computed_);
  for (const zero::EndCall call : zero::end_of_step) end_of_step_.execute(call);
  return end_of_step_.report();
}

/// Returns the number of nodes whose gradients are summed in this step: all nodes while they warm up, otherwise 1.
int Trainer::nodes_summing_gradients(std::int64_t t) const {
  const bool warms_up = synchroniser_ != nullptr && synchroniser_->schedule().in_warmup(static_cast<std::size_t>(t) + 1);
  return warms_up ? groups_.across.ranks : 1;
}

/// The outer update uses the learning rate of step t, which is the same on all nodes. Their counts of updates may differ,
/// since a node may have skipped some.
void Trainer::synchronise(std::int64_t t) {
  const auto step = static_cast<std::size_t>(t) + 1;
  const auto after_step = [&] {
    synchroniser_->after_step(step, optim::rates(options_.schedule, options_.optimizer, t).learning_rate);
  };
  if (synchroniser_->writes_masters(step)) {
    engine_.change_masters(after_step);
  } else {
    after_step();
  }
}

/// Returns true if nodes exchange their reports after this step: if they synchronize and so wait for each other anyway.
/// Nodes that never do must still learn that one of them is to stop, however rarely the user wants a line of the log.
bool Trainer::reports_after(std::int64_t step) const {
  if (groups_.across.ranks == 1) return true;
  constexpr std::size_t longest_silence = 10;
  const auto steps = static_cast<std::size_t>(step);
  const sync::SyncSchedule& schedule = synchroniser_->schedule();
  if (schedule.period() != 0) return schedule.synchronizes(steps);
  return steps % std::min(options_.train.log_every, longest_silence) == 0;
}

std::map<std::string, double> Trainer::numbers() const {
  const bool several_nodes = groups_.across.ranks > 1;
  const std::map<std::string, double> own = updates_.numbers(several_nodes);
  return several_nodes ? gather_numbers(world_, groups_, own) : own;
}

void Trainer::restore(std::int64_t steps, const std::map<std::string, double>& all) {
  updates_.restore(steps, numbers_of_node(all, groups_));
}

double Trainer::evaluate(std::int64_t steps) {
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "evaluate");
  heartbeat::phase("evaluate");
  const bool differ =
      synchroniser_ != nullptr && synchroniser_->schedule().nodes_differ_after(static_cast<std::size_t>(steps));
  if (differ) engine_.change_masters([&] { synchroniser_->swap_in_mean(); });
  const double loss = app::evaluate(world_, engine_, runner_, *validation_, options_.batch.micro, options_.model.block_size,
                                    options_.train.eval_batches * options_.batch.global);
  if (differ) engine_.change_masters([&] { synchroniser_->restore_own(); });
  return loss;
}

}  // namespace shoal::app
