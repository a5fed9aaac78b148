// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/parameters.hpp"

#include <algorithm>
#include <numeric>

#include "fill_with_nan.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t in_flight = 2;  // messages with scratch memory of their own; the next one waits for the oldest

}  // namespace

Parameters::Parameters(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts, States& states,
                       const std::vector<UseOrder>& passes, const RankGroups& groups, const GatherOptions& options,
                       Memory& memory)
    : layouts_(layouts),
      states_(states),
      secondary_(layouts, states.dtype(), options.zero, groups, memory),
      groups_(groups),
      overlap_(options.overlap),
      gatherer_(make_gatherer(options.zero, options.collectives, groups)),
      near_gatherer_(comm::make_reducer(options.collectives, secondary_.ranks(), groups.neighbours)),
      publisher_(comm::make_reducer(options.collectives, groups.ranks, groups.group)) {
  gathers_ = std::any_of(layouts_.begin(), layouts_.end(), [](const ShardLayout& layout) { return layout.gathered; });
  std::vector<std::string> names;
  std::vector<int> published;
  for (std::size_t u = 0; u < units.size(); ++u) {
    names.push_back(units[u].name);
    if (layouts_[u].published) published.push_back(static_cast<int>(u));
  }
  std::size_t bytes = 0, largest = 0;
  for (const UseOrder& visits : passes) {
    passes_.push_back(schedule(visits, names, options));
    bytes = std::max(bytes, passes_.back().plan.bytes);
  }
  gathered_ = memory.take<std::byte>(Kind::buffers, bytes, "gathered parameters");
  if (gathers_ && groups.ranks > 1 && gather_format(options.zero)) errors_ = QuantErrors(memory, units.size());

  buckets_ = make_buckets(units, published, groups_.ranks, options.bucket_elements);
  gathered_with_.assign(units.size(), 0);
  for (std::size_t m = 0; m < buckets_.size(); ++m) {
    for (const Part& part : buckets_[m].parts) gathered_with_[static_cast<std::size_t>(part.unit)] = m + 1;
    largest = std::max(largest, buckets_[m].elements);
  }
  all_gathers_done_ = all_gathers_started_ = buckets_.size();
  for (const ShardLayout& layout : layouts_) {
    if (layout.gathered) largest = std::max(largest, layout.elements);
  }
  if (largest == 0) return;
  const comm::MessageBounds bounds{largest};
  std::size_t scratch = std::max(publisher_->gather_scratch_bytes(bounds, states_.dtype()),
                                 near_gatherer_->gather_scratch_bytes(bounds, states_.dtype()));
  if (gathers_) scratch = std::max(scratch, gatherer_->gather_scratch_bytes(bounds, states_.dtype()));
  for (std::size_t i = 0; i < in_flight; ++i) {
    scratch_.push_back(memory.take<std::byte>(Kind::buffers, scratch, "messages"));
  }
}

Parameters::Schedule Parameters::schedule(const UseOrder& visits, const std::vector<std::string>& names,
                                          const GatherOptions& options) const {
  std::vector<std::size_t> bytes_of;
  for (const ShardLayout& layout : layouts_)
    bytes_of.push_back(layout.gathered ? layout.elements * size_of(states_.dtype()) : 0);
  ZeroOptions zero = options.zero;
  if (!options.overlap) zero.prefetch_units = 0;
  Schedule pass;
  pass.plan = plan_gathers(visits, bytes_of, names, zero);
  const std::vector<GatherLifetime>& lifetimes = pass.plan.gather_lifetimes;
  pass.of_unit.resize(names.size());
  for (std::size_t k = 0; k < lifetimes.size(); ++k) pass.of_unit[static_cast<std::size_t>(lifetimes[k].unit)].push_back(k);
  pass.by_end.resize(lifetimes.size());
  std::iota(pass.by_end.begin(), pass.by_end.end(), 0);
  std::stable_sort(pass.by_end.begin(), pass.by_end.end(),
                   [&](std::size_t one, std::size_t other) { return lifetimes[one].last < lifetimes[other].last; });
  return pass;
}

void Parameters::begin(std::size_t pass) {
  require(held_ == 0, "a pass begins while parameters of the one before are in use");
  pass_ = &passes_.at(pass);
  visit_ = lifetimes_started_ = lifetimes_ended_ = 0;
}

const void* Parameters::acquire(int unit) {
  if (gathers_ && held_++ == 0) begin_use();
  if (!layouts_[static_cast<std::size_t>(unit)].gathered) {
    wait_for_gathered(gathered_with_[static_cast<std::size_t>(unit)]);
    return states_.parameters(unit).data();
  }
  const std::size_t wanted = gather_lifetime(unit);
  const auto awaited = [&](const Gather& g) { return g.index == wanted; };
  while (std::any_of(gathering_.begin(), gathering_.end(), awaited)) finish_gather();
  return whole(pass_->plan.gather_lifetimes[wanted]).data();
}

void Parameters::release(int) {
  if (gathers_ && --held_ == 0) leave_visit();
}

/// Starts the gathers that the plan has at the beginning of this use, in the same order on all ranks.
void Parameters::begin_use() {
  require(pass_ != nullptr && visit_ < pass_->plan.visits, "visit ", visit_, " is not in the pass's plan");
  const std::vector<GatherLifetime>& lifetimes = pass_->plan.gather_lifetimes;
  while (lifetimes_started_ < lifetimes.size() && lifetimes[lifetimes_started_].start == visit_) {
    start_gather(lifetimes_started_++);
  }
}

void Parameters::leave_visit() {
  for (; lifetimes_ended_ < pass_->by_end.size(); ++lifetimes_ended_) {
    const GatherLifetime& lifetime = pass_->plan.gather_lifetimes[pass_->by_end[lifetimes_ended_]];
    if (lifetime.last != visit_) break;
    const trace::OnBehalfOf unit(lifetime.unit);
    const trace::Region region(trace::Level::comm, trace::Kind::phase, "release", whole(lifetime).size());
#ifndef NDEBUG
    fill_with_nan(whole(lifetime));
#endif
  }
  ++visit_;
}

std::size_t Parameters::gather_lifetime(int unit) const {
  const std::vector<std::size_t>& own = pass_->of_unit[static_cast<std::size_t>(unit)];
  const auto& lifetimes = pass_->plan.gather_lifetimes;
  const auto next =
      std::partition_point(own.begin(), own.end(), [&](std::size_t index) { return lifetimes[index].first <= visit_; });
  require(next != own.begin() && visit_ <= lifetimes[*std::prev(next)].last, "unit ", unit, " is not in visit ", visit_,
          " of the pass's plan");
  return *std::prev(next);
}

Span<std::byte> Parameters::whole(const GatherLifetime& lifetime) const {
  const std::size_t elements = layouts_[static_cast<std::size_t>(lifetime.unit)].elements;
  return gathered_.subspan(lifetime.offset, elements * size_of(states_.dtype()));
}

void Parameters::start_gather(std::size_t index) {
  const GatherLifetime& lifetime = pass_->plan.gather_lifetimes[index];
  const ShardLayout& layout = layouts_[static_cast<std::size_t>(lifetime.unit)];
  const trace::OnBehalfOf unit(lifetime.unit);
  if (gathering_.size() == scratch_.size()) finish_gather();
  const std::size_t size = size_of(states_.dtype());
  const Span<std::byte> scratch = scratch_[gathers_started_++ % scratch_.size()];
  const bool near = secondary_.fresh(lifetime.unit);
  if (near) {
    secondary_.copy_shard(lifetime.unit, whole(lifetime));
  } else {
    const Span<std::byte> own = states_.parameters(lifetime.unit);
    kernels::copy_bytes(own.size(), own.data(), whole(lifetime).data() + layout.shard.begin * size);
  }
  comm::Reducer& gatherer = near ? *near_gatherer_ : *gatherer_;
  gathering_.push_back(
      {index, !near,
       gatherer.all_gather(shard_blocks(whole(lifetime), size, near ? secondary_.ranks() : groups_.ranks), states_.dtype(),
                           scratch, {{}, errors_.of(static_cast<std::size_t>(lifetime.unit))})});
}

/// Waits for the oldest gather.
void Parameters::finish_gather() {
  Gather& gather = gathering_.front();
  gather.request.wait();
  const GatherLifetime& lifetime = pass_->plan.gather_lifetimes[gather.index];
  if (gather.over_all_ranks) secondary_.store(lifetime.unit, whole(lifetime));
  gathering_.pop_front();
}

comm::Blocks Parameters::blocks(const Bucket& bucket) const {
  const std::size_t size = size_of(states_.dtype());
  return bucket_blocks(bucket, layouts_, groups_.ranks, [&](int unit, Range range) {
    return states_.parameters(unit).subspan(range.begin * size, range.size() * size);
  });
}

void Parameters::start_all_gather() {
  wait_for_parameters();
  secondary_.expire();
  all_gathers_done_ = all_gathers_started_ = 0;
  while (all_gathers_started_ < std::min(scratch_.size(), buckets_.size())) start_next_all_gather();
  if (!overlap_ || gathers_) wait_for_parameters();  // gathers of units use the same scratch memory
}

void Parameters::start_next_all_gather() {
  const trace::OnBehalfOf first_used(buckets_[all_gathers_started_].parts.front().unit);
  const Span<std::byte> scratch = scratch_[all_gathers_started_ % scratch_.size()];
  all_gathers_.push_back(publisher_->all_gather(blocks(buckets_[all_gathers_started_]), states_.dtype(), scratch, {}));
  ++all_gathers_started_;
}

void Parameters::wait_for_parameters() { wait_for_gathered(buckets_.size()); }

/// Waits until this many buckets have arrived. The next bucket is started when the oldest has arrived, in the same call of
/// acquire() on all ranks.
void Parameters::wait_for_gathered(std::size_t buckets) {
  for (; all_gathers_done_ < buckets; ++all_gathers_done_) {
    all_gathers_.front().wait();
    all_gathers_.pop_front();
    if (all_gathers_started_ < buckets_.size()) start_next_all_gather();
  }
}

}  // namespace shoal::zero
