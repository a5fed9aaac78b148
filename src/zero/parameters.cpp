// SPDX-License-Identifier: Apache-2.0
#include "zero/parameters.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fill_with_nan.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::zero {

Parameters::Pass::Pass(GatherPlan gathers, std::size_t units)
    : plan(std::move(gathers)), of_unit(units), by_end(plan.gather_lifetimes.size()) {
  const std::vector<GatherLifetime>& lifetimes = plan.gather_lifetimes;
  for (std::size_t k = 0; k < lifetimes.size(); ++k) of_unit[static_cast<std::size_t>(lifetimes[k].unit)].push_back(k);
  std::iota(by_end.begin(), by_end.end(), 0);
  std::stable_sort(by_end.begin(), by_end.end(),
                   [&](std::size_t one, std::size_t other) { return lifetimes[one].last < lifetimes[other].last; });
}

Parameters::Parameters(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts, States& states,
                       const std::vector<UseOrder>& passes, const RankGroups& groups, const GatherOptions& options,
                       Memory& memory)
    : layouts_(layouts),
      states_(states),
      secondary_(layouts, states.dtype(), options.zero, groups, memory),
      fetches_(layouts, states, memory),
      groups_(groups),
      gathers_(gathers_units(layouts)),
      gatherer_(make_gatherer(options.zero, options.collectives, groups)),
      near_gatherer_(comm::make_reducer(options.collectives, secondary_.ranks(), groups.neighbours)),
      publisher_(comm::make_reducer(options.collectives, groups.ranks, groups.group)),
      publishing_(published_buckets(units, layouts, groups.ranks, options.bucket_elements), options.overlap && !gathers_) {
  std::size_t bytes = 0, largest = 0;
  for (const UseOrder& uses : passes) {
    passes_.emplace_back(plan_gathers(uses, units, layouts, states.dtype(), options.zero, options.overlap), units.size());
    bytes = std::max(bytes, passes_.back().plan.bytes);
  }
  const Use sent = comm::use_of(options.collectives, groups.ranks);
  const bool only_codes = gather_format(options.zero) && secondary_.ranks() == 1;  // they are sent from scratch memory
  gathered_ = memory.take<std::byte>(Kind::buffers, bytes, "gathered parameters", only_codes ? Use::kernels : sent);
  if (gathers_ && groups.ranks > 1 && gather_format(options.zero)) errors_ = QuantErrors(memory, units.size());

  for (const Bucket& bucket : publishing_.buckets()) largest = std::max(largest, bucket.elements);
  for (const ShardLayout& layout : layouts_) {
    if (layout.gathered) largest = std::max(largest, layout.elements);
  }
  if (largest == 0) return;
  const comm::MessageBounds bounds{largest};
  std::size_t scratch = std::max(publisher_->gather_scratch_bytes(bounds, states_.dtype()),
                                 near_gatherer_->gather_scratch_bytes(bounds, states_.dtype()));
  if (gathers_) scratch = std::max(scratch, gatherer_->gather_scratch_bytes(bounds, states_.dtype()));
  for (std::size_t i = 0; i < messages_in_flight; ++i) {
    scratch_.push_back(memory.take<std::byte>(Kind::buffers, scratch, "messages", sent));
  }
}

void Parameters::begin(std::size_t pass) {
  require(held_ == 0, "a pass begins while parameters of the one before are in use");
  pass_ = &passes_.at(pass);
  use_ = lifetimes_ended_ = 0;
  fetches_.begin(pass_->plan.gather_lifetimes);
}

const void* Parameters::acquire(int unit) {
  if (gathers_ && held_++ == 0) begin_use();
  if (!layouts_[static_cast<std::size_t>(unit)].gathered) {
    execute_publishing(publishing_.before_use(unit));
    return states_.parameters(unit).data();
  }
  return whole(gather_lifetime(unit)).data();
}

void Parameters::release(int) {
  if (gathers_ && --held_ == 0) end_use();
}

/// Starts the gathers that the plan has at the beginning of this use, and waits for those of its units.
void Parameters::begin_use() {
  require(pass_ != nullptr && use_ < pass_->plan.calls.size(), "use ", use_, " is not in the pass's plan");
  for (const Call& call : pass_->plan.calls[use_]) {
    const GatherLifetime& lifetime = pass_->plan.gather_lifetimes[call.message];
    if (call.kind == Call::Kind::start) {
      start_gather(lifetime);
    } else {
      finish_gather(lifetime);
    }
  }
}

void Parameters::end_use() {
  for (; lifetimes_ended_ < pass_->by_end.size(); ++lifetimes_ended_) {
    const GatherLifetime& lifetime = pass_->plan.gather_lifetimes[pass_->by_end[lifetimes_ended_]];
    if (lifetime.last != use_) break;
    const trace::OnBehalfOf unit(lifetime.unit);
    const trace::Region region(trace::Level::comm, trace::Kind::phase, "release", whole(lifetime).size());
#ifndef NDEBUG
    fill_with_nan(whole(lifetime));
#endif
  }
  ++use_;
}

const GatherLifetime& Parameters::gather_lifetime(int unit) const {
  const std::vector<std::size_t>& own = pass_->of_unit[static_cast<std::size_t>(unit)];
  const auto& lifetimes = pass_->plan.gather_lifetimes;
  const auto next =
      std::partition_point(own.begin(), own.end(), [&](std::size_t index) { return lifetimes[index].first <= use_; });
  require(next != own.begin() && use_ <= lifetimes[*std::prev(next)].last, "unit ", unit, " is not in use ", use_,
          " of the pass's plan");
  return lifetimes[*std::prev(next)];
}

Span<std::byte> Parameters::whole(const GatherLifetime& lifetime) const {
  const std::size_t elements = layouts_[static_cast<std::size_t>(lifetime.unit)].elements;
  return gathered_.subspan(lifetime.offset, elements * size_of(states_.dtype()));
}

void Parameters::start_gather(const GatherLifetime& lifetime) {
  const ShardLayout& layout = layouts_[static_cast<std::size_t>(lifetime.unit)];
  const trace::OnBehalfOf unit(lifetime.unit);
  const std::size_t size = size_of(states_.dtype());
  const Span<std::byte> scratch = scratch_[gathers_started_++ % scratch_.size()];
  const bool near = secondary_.fresh(lifetime.unit);
  if (near) {
    secondary_.copy_shard(lifetime.unit, whole(lifetime));
  } else {
    const bool moved = !device::kernels_reach(states_.places(lifetime.unit).params);
    const Span<std::byte> own = moved ? fetches_.next() : states_.parameters(lifetime.unit);
    kernels::copy_bytes(own.size(), own.data(), whole(lifetime).data() + layout.shard.begin * size);
  }
  comm::Reducer& gatherer = near ? *near_gatherer_ : *gatherer_;
  gathering_.push_back(
      {!near, gatherer.all_gather(shard_blocks(whole(lifetime), size, near ? secondary_.ranks() : groups_.ranks),
                                  states_.dtype(), scratch, {{}, errors_.of(static_cast<std::size_t>(lifetime.unit))})});
}

/// Waits for this gather: gathers end in the order in which they started, so it is the oldest.
void Parameters::finish_gather(const GatherLifetime& lifetime) {
  Gather& gather = gathering_.front();
  gather.request.wait();
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
  secondary_.expire();
  execute_publishing(publishing_.restart());
}

void Parameters::wait_for_parameters() { execute_publishing(publishing_.wait_for_all()); }

void Parameters::execute_publishing(const Calls& calls) {
  for (const Call& call : calls) {
    if (call.kind == Call::Kind::start) {
      publish(call.message);
    } else {
      all_gathers_.front().wait();
      all_gathers_.pop_front();
    }
  }
}

void Parameters::publish(std::size_t message) {
  const Bucket& bucket = publishing_.buckets()[message];
  const trace::OnBehalfOf first_used(bucket.parts.front().unit);
  const Span<std::byte> scratch = scratch_[message % scratch_.size()];
  all_gathers_.push_back(publisher_->all_gather(blocks(bucket), states_.dtype(), scratch, {}));
}

}  // namespace shoal::zero
