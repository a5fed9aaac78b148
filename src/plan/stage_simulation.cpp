// SPDX-License-Identifier: Apache-2.0
#include "stage_simulation.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace shoal::plan {

namespace {

using Pass = zero::StepItem::Pass;

/// The seconds of a pass, divided among its uses.
std::vector<double> divided(double seconds, std::vector<double> uses) {
  const double sum = std::accumulate(uses.begin(), uses.end(), 0.0);
  for (double& use : uses) use *= seconds / sum;
  return uses;
}

/// The items that come before the exchange of losses, which a rank alone does not make, and before the update.
zero::StepItems::iterator end_of_reductions(zero::StepItems& items) {
  return std::find_if(items.begin(), items.end(), [](const zero::StepItem& item) {
    return item.kind == zero::StepItem::Kind::update ||
           (item.kind == zero::StepItem::Kind::start && item.message == zero::MessageKind::losses);
  });
}

}  // namespace

StageSimulation::StageSimulation(const zero::EngineOptions& options, const std::vector<pipeline::PassTimes>& times,
                                 int ranks, const CollectiveCosts& collectives, const Cluster& cluster)
    : schedule_(options, ranks),
      execution_(step_messages(options, schedule_, collectives, cluster)),
      time_(cluster.ranks()) {
  const std::vector<model::UnitCost> costs = model::costs(options.model, options.dtype, options.capacity);
  std::size_t uses = 0;
  for (std::size_t part = 0; part < times.size(); ++part) {
    const bool whole = options.parts[part].whole_slots > 0;
    PartOfModel& made = parts_.emplace_back(PartOfModel{whole, {}});
    for (const auto& [pass, seconds] :
         {std::pair(Pass::forward, times[part].forward),
          std::pair(whole ? Pass::backward : Pass::recomputing_backward, times[part].backward)}) {
      uses += schedule_.uses(part, pass).size();
      made.use_s[static_cast<std::size_t>(pass)] = divided(seconds, use_flops(schedule_, part, pass, costs));
    }
  }
  check_effort(schedule_.accumulation(), uses, cluster.ranks());
}

double StageSimulation::optimizer_elements() const {
  double elements = 0;
  for (const zero::ShardLayout& layout : schedule_.layouts()) elements += static_cast<double>(layout.optimizer.size());
  return elements;
}

void StageSimulation::wait_until(double moment) { time_.work(std::max(0.0, moment - now_s())); }

double StageSimulation::pass(const pipeline::Action& action, double moment) {
  wait_until(moment);
  const PartOfModel& part = parts_[action.part];
  const zero::StepItems items = action.kind == pipeline::Action::Kind::forward ? schedule_.forward(action.part)
                                                                               : schedule_.backward(action.part, part.whole);
  execution_.execute(items, part.use_s, 0, time_);
  return now_s() - moment;
}

void StageSimulation::reduce(double moment) {
  wait_until(moment);
  zero::StepItems items = schedule_.end_of_step();
  const auto end = end_of_reductions(items);
  after_reductions_.assign(end, items.end());
  items.erase(end, items.end());
  execution_.execute(items, {}, 0, time_);
}

void StageSimulation::update(double moment, double update_s) {
  wait_until(moment);
  execution_.execute(after_reductions_, {}, update_s, time_);
}

}  // namespace shoal::plan
