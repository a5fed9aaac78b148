// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/step_simulation.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/zero/staging.hpp"

namespace shoal::plan {

namespace {

constexpr std::size_t in_flight = 2;  // messages, as in zero/gradients.cpp and zero/parameters.cpp

std::size_t at(int index) { return static_cast<std::size_t>(index); }

zero::RankGroups groups_of(int ranks) {
  zero::RankGroups groups;
  groups.ranks = ranks;
  return groups;
}

bool every_micro_step(const zero::EngineOptions& options, int ranks) {
  return ranks > 1 && zero::stage_of(options.zero).shards_gradients;
}

/// Number of weights in a unit's matrix products. The unit's computing time is proportional to it.
double weights_of(const model::UnitLayout& unit) {
  double elements = 0;
  for (const model::Parameter& parameter : unit.parameters) {
    if (!parameter.is_vector()) elements += static_cast<double>(parameter.elements());
  }
  return elements;
}

}  // namespace

StepSimulation::StepSimulation(const zero::EngineOptions& options, int sync_group_size, const CollectiveCosts& collectives,
                               const Cluster& cluster, const Arithmetic& arithmetic, Timeline& timeline)
    : options_(&options),
      ranks_(sync_group_size),
      collectives_(&collectives),
      cluster_(&cluster),
      arithmetic_(arithmetic),
      time_(&timeline),
      units_(model::layout(options.model)),
      layouts_(zero::shard_layouts(units_, options.zero, groups_of(sync_group_size))),
      accumulation_(options.micro_batches, sync_group_size, every_micro_step(options, sync_group_size),
                    options.gradients.collectives == comm::Collectives::native),
      group_(Grouping::consecutive(cluster.ranks(), sync_group_size)),
      overlap_(options.gradients.overlap),
      fresh_(units_.size(), false),
      buckets_before_(units_.size(), 0),
      published_with_(units_.size(), 0),
      complete_(units_.size(), false) {
  plan_visits();
  check_effort(visits_.size());
  if (ranks_ == 1) return;
  plan_gathers();
  plan_buckets();
  small_ = collectives_->small(group_);
}

/// A step is simulated event by event. Refuses steps whose simulation would take minutes.
void StepSimulation::check_effort(std::size_t events_of_a_micro_step) const {
  constexpr double most_events = 5e8;
  const double turns = static_cast<double>(accumulation_.rounds) * static_cast<double>(accumulation_.micro_steps_per_round);
  require_input(turns * static_cast<double>(events_of_a_micro_step) <= most_events, "batch.global: a step of ", turns,
                " micro-batches on a rank is too long to rehearse for ", cluster_->ranks(), " ranks");
}

/// Time model: the backward pass takes twice as long as the forward pass, and a unit's gradient is complete at its last use.
/// Exceptions: all matrix products of the head, forward and backward, are made in its first use; the embedding's gradient is
/// complete at the end of the pass. Lookups in the embedding cost nothing.
void StepSimulation::plan_visits() {
  const auto visits = model::use_order(options_->model, options_->capacity);
  const int embedding = 0, head = static_cast<int>(units_.size()) - 1;
  std::vector<std::size_t> last_visit(units_.size(), 0);
  std::size_t turning = visits.size();
  for (std::size_t v = 0; v < visits.size(); ++v) {
    for (const int unit : visits[v]) {
      last_visit[at(unit)] = v;
      if (unit == head) turning = std::min(turning, v);
    }
  }
  double sum = 0;
  for (std::size_t v = 0; v < visits.size(); ++v) {
    Use visit;
    visit.units = visits[v];
    for (const int unit : visits[v]) {
      if (unit != embedding && last_visit[at(unit)] == v) visit.completed.push_back(unit);
      if (unit == head ? v == turning : unit != embedding || v == turning) visit.share += weights_of(units_[at(unit)]);
    }
    visit.share *= v < turning ? 1 : v == turning ? 3 : visit.completed.empty() ? 1 : 2;
    sum += visit.share;
    visits_.push_back(std::move(visit));
  }
  visits_.back().completed.push_back(embedding);
  for (Use& visit : visits_) visit.share /= sum;
}

void StepSimulation::plan_gathers() {
  std::vector<std::size_t> bytes;
  std::vector<std::string> names;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    bytes.push_back(layouts_[u].gathered ? layouts_[u].elements * size_of(options_->dtype) : 0);
    names.push_back(units_[u].name);
  }
  zero::ZeroOptions zero = options_->zero;
  if (!overlap_) zero.prefetch_units = 0;
  gathers_ = zero::plan_gathers(model::use_order(options_->model, options_->capacity), bytes, names, zero);
  for (std::size_t k = 0; k < gathers_.gather_lifetimes.size(); ++k) {
    visits_[gathers_.gather_lifetimes[k].start].starting.push_back(k);
  }
  const bool second = zero::has_secondary(zero.hpz_size, ranks_);
  gather_far_.resize(units_.size());
  gather_near_.resize(units_.size());
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (!layouts_[u].gathered) continue;
    gather_far_[u] = gather_cost(u, ranks_, zero.qwz != 0);
    if (second) gather_near_[u] = gather_cost(u, static_cast<int>(zero.hpz_size), false);
  }
}

void StepSimulation::plan_buckets() {
  std::vector<int> backwards(units_.size()), published;
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (layouts_[u].published) published.push_back(static_cast<int>(u));
  }
  const std::size_t most = options_->gradients.bucket_elements;
  reduced_ = zero::make_buckets(units_, backwards, ranks_, most);
  check_effort(reduced_.size() * at(ranks_) /
               (accumulation_.reduced_every_micro_step ? 1 : accumulation_.micro_steps_per_round));
  const bool whole = std::none_of(layouts_.begin(), layouts_.end(), [](const auto& h) { return h.updated_in_part(); });
  for (const zero::Bucket& bucket : reduced_) {
    reduce_.push_back(cost_of(comm::TreeDirection::reduce_scatter, bucket, options_->gradients.dtype));
    if (whole) gather_sums_.push_back(cost_of(comm::TreeDirection::all_gather, bucket, options_->gradients.dtype));
  }
  gathered_buckets_ = zero::make_buckets(units_, published, ranks_, most);
  for (std::size_t m = 0; m < gathered_buckets_.size(); ++m) {
    publish_.push_back(cost_of(comm::TreeDirection::all_gather, gathered_buckets_[m], options_->dtype));
    for (const zero::Part& part : gathered_buckets_[m].parts) published_with_[at(part.unit)] = m + 1;
  }
  if (!accumulation_.reduced_every_micro_step) return;
  Memory counting;
  const zero::Staging staging(units_, backwards, reduced_, overlap_ ? 1 : 0, counting);
  for (std::size_t u = 0; u < units_.size(); ++u) buckets_before_[u] = staging.buckets_before(static_cast<int>(u));
}

StepSimulation::Costs StepSimulation::cost_of(comm::TreeDirection direction, const zero::Bucket& bucket, DType dtype) {
  BlockSpans blocks(at(ranks_));
  std::vector<std::size_t> bytes;
  for (int rank = 0; rank < ranks_; ++rank) {
    std::size_t elements = 0;
    for (const zero::Part& part : bucket.parts) {
      const Range range = zero::block_of(part, units_[at(part.unit)].elements, rank, ranks_);
      if (!range.empty()) blocks[at(rank)].push_back(range.size());
      elements += range.size();
    }
    bytes.push_back(elements * size_of(dtype));
  }
  const auto& quantized = options_->gradients.quantized;
  if (direction == comm::TreeDirection::all_gather || !quantized) return cost_of_tree(direction, group_, bytes);
  return std::make_shared<const Cost>(
      collectives_->quantized_reduce_scatter(group_, {blocks}, quantized->ranks_per_node, quantized->formats));
}

StepSimulation::Costs StepSimulation::gather_cost(std::size_t unit, int ranks, bool quantized) {
  BlockSpans blocks(at(ranks));
  std::vector<std::size_t> bytes;
  for (int rank = 0; rank < ranks; ++rank) {
    const Range shard = zero::shard_of(units_[unit].elements, rank, ranks);
    if (!shard.empty()) blocks[at(rank)].push_back(shard.size());
    bytes.push_back(shard.size() * size_of(options_->dtype));
  }
  const Grouping grouping = Grouping::consecutive(cluster_->ranks(), ranks);
  if (!quantized) return cost_of_tree(comm::TreeDirection::all_gather, grouping, bytes);
  return std::make_shared<const Cost>(
      collectives_->quantized_all_gather(grouping, {blocks}, zero::gather_format(options_->zero).value()));
}

/// Most units have the same size, so costs are computed once and looked up again.
StepSimulation::Costs StepSimulation::cost_of_tree(comm::TreeDirection direction, const Grouping& grouping,
                                                   const std::vector<std::size_t>& bytes) {
  Costs& known = known_[{bytes, {direction, grouping.groups.size()}}];
  if (!known) {
    known = std::make_shared<const Cost>(direction == comm::TreeDirection::reduce_scatter
                                             ? collectives_->reduce_scatter(grouping, {bytes})
                                             : collectives_->all_gather(grouping, {bytes}));
  }
  return known;
}

void StepSimulation::step() {
  for (std::size_t round = 0; round < accumulation_.rounds; ++round) {
    for (std::size_t t = 0; t < accumulation_.micro_steps_per_round; ++t)
      micro_step(accumulation_.reduced_every_micro_step || t + 1 == accumulation_.micro_steps_per_round);
    while (started_ < reduce_.size()) start_reducing();
    finish_reducing(started_);
    started_ = finished_ = 0;
  }
  if (ranks_ > 1) {
    time_->run(OperationKind::all_gather, small_);  // the losses
    time_->run(OperationKind::all_gather, small_);  // the norm
    gather_gradients();
  }
  time_->work(arithmetic_.update_s);
  std::fill(fresh_.begin(), fresh_.end(), false);
  start_all_gather();
}

void StepSimulation::micro_step(bool reduces) {
  const double seconds =
      arithmetic_.micro_batches_s / static_cast<double>(accumulation_.rounds * accumulation_.micro_steps_per_round);
  std::fill(complete_.begin(), complete_.end(), false);
  first_gradient_ = true;
  for (std::size_t v = 0; v < visits_.size(); ++v) {
    for (const std::size_t lifetime : visits_[v].starting) start_gather(lifetime);
    for (const int unit : visits_[v].units) acquire(unit, v);
    for (const int unit : visits_[v].completed) make_room(unit);
    time_->work(visits_[v].share * seconds);
    for (const int unit : visits_[v].completed) complete(unit, reduces);
  }
}

void StepSimulation::start_gather(std::size_t lifetime) {
  if (gathering_.size() == in_flight) finish_gather();
  const std::size_t unit = at(gathers_.gather_lifetimes[lifetime].unit);
  const bool near = fresh_[unit] && gather_near_[unit] != nullptr;
  fresh_[unit] = true;
  gathering_.emplace_back(lifetime,
                          time_->start(OperationKind::all_gather, near ? *gather_near_[unit] : *gather_far_[unit]));
}

void StepSimulation::finish_gather() {
  time_->wait(gathering_.front().second);
  gathering_.pop_front();
}

void StepSimulation::acquire(int unit, std::size_t visit) {
  if (!layouts_[at(unit)].gathered) return wait_for_gathered(published_with_[at(unit)]);
  const auto wanted = [&](const auto& gather) {
    const zero::GatherLifetime& r = gathers_.gather_lifetimes[gather.first];
    return r.unit == unit && r.first <= visit && visit <= r.last;
  };
  while (std::any_of(gathering_.begin(), gathering_.end(), wanted)) finish_gather();
}

/// Waits for the buckets that still read from the memory to which the unit's gradient will be written.
void StepSimulation::make_room(int unit) {
  if (!accumulation_.reduced_every_micro_step) return;
  if (std::exchange(first_gradient_, false)) {
    finish_reducing(started_);
    started_ = finished_ = 0;
  }
  finish_reducing(buckets_before_[at(unit)]);
}

void StepSimulation::complete(int unit, bool reduces) {
  complete_[at(unit)] = true;
  if (!reduces || (!overlap_ && !accumulation_.reduced_every_micro_step)) return;
  while (started_ < reduce_.size() && complete_[at(reduced_[started_].last_unit)]) start_reducing();
  if (!overlap_) finish_reducing(started_);
}

void StepSimulation::start_reducing() {
  if (started_ - finished_ == in_flight) finish_reducing(finished_ + 1);
  reducing_.push_back(time_->start(OperationKind::reduce_scatter, *reduce_[started_++]));
}

void StepSimulation::finish_reducing(std::size_t buckets) {
  for (; finished_ < buckets; ++finished_) {
    time_->wait(reducing_.front());
    reducing_.pop_front();
  }
}

/// In stage 0 every rank updates all parameters, so the summed gradients are gathered.
void StepSimulation::gather_gradients() {
  std::deque<Timeline::Pending> gathering;
  for (const Costs& cost : gather_sums_) {
    if (gathering.size() == in_flight) {
      time_->wait(gathering.front());
      gathering.pop_front();
    }
    gathering.push_back(time_->start(OperationKind::all_gather, *cost));
  }
  for (const Timeline::Pending& pending : gathering) time_->wait(pending);
}

void StepSimulation::start_all_gather() {
  settle();
  gathered_ = publish_started_ = 0;
  for (; publish_started_ < std::min(in_flight, publish_.size()); ++publish_started_) {
    publishing_.push_back(time_->start(OperationKind::all_gather, *publish_[publish_started_]));
  }
  if (!overlap_ || !gathers_.gather_lifetimes.empty()) settle();
}

void StepSimulation::settle() { wait_for_gathered(publish_.size()); }

void StepSimulation::wait_for_gathered(std::size_t buckets) {
  if (publish_started_ == 0) return;  // there was no update yet
  for (; gathered_ < buckets; ++gathered_) {
    time_->wait(publishing_.front());
    publishing_.pop_front();
    if (publish_started_ < publish_.size()) {
      publishing_.push_back(time_->start(OperationKind::all_gather, *publish_[publish_started_++]));
    }
  }
}

}  // namespace shoal::plan
