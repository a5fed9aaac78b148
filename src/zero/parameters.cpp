// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/parameters.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/kernels/pointwise.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t in_flight = 2;  // messages whose scratch memory is planned; the next one waits for the oldest

}  // namespace

Parameters::Parameters(const std::vector<model::UnitLayout>& units, const std::vector<Holding>& holdings, States& states,
                       const Visits& training, const Visits& evaluation, const Placement& placement,
                       const GatherOptions& options, Memory& memory)
    : holdings_(holdings),
      states_(states),
      secondary_(holdings, states.dtype(), options.zero, placement, memory),
      placement_(placement),
      overlap_(options.overlap),
      collectives_(options.collectives),
      quantized_(gather_format(options.zero)),
      errors_(units.size()) {
  gathers_ = std::any_of(holdings_.begin(), holdings_.end(), [](const Holding& h) { return h.gathered; });
  std::vector<std::string> names;
  std::vector<int> published;
  for (std::size_t u = 0; u < units.size(); ++u) {
    names.push_back(units[u].name);
    if (holdings_[u].published) published.push_back(static_cast<int>(u));
  }
  passes_[static_cast<int>(Pass::training)] = schedule(training, names, options);
  passes_[static_cast<int>(Pass::evaluation)] = schedule(evaluation, names, options);
  std::size_t bytes = 0, largest = 0;
  for (const Schedule& pass : passes_) bytes = std::max(bytes, pass.plan.bytes);
  gathered_ = memory.take<std::byte>(Kind::buffers, bytes, "gathered parameters");

  messages_ = cut_messages(units, published, placement_.ranks, options.message_elements);
  published_with_.assign(units.size(), 0);
  for (std::size_t m = 0; m < messages_.size(); ++m) {
    for (const Part& part : messages_[m].parts) published_with_[static_cast<std::size_t>(part.unit)] = m + 1;
    largest = std::max(largest, messages_[m].elements);
  }
  published_ = publish_started_ = messages_.size();
  for (const Holding& h : holdings_) {
    if (h.gathered) largest = std::max(largest, h.elements);
  }
  if (largest == 0) return;
  const std::size_t message = largest * size_of(states_.dtype());
  std::size_t scratch = std::max(comm::scratch_bytes(collectives_, placement_.ranks, message),
                                 comm::scratch_bytes(collectives_, secondary_.ranks(), message));
  if (quantized_ && gathers_) {
    const auto spans = static_cast<std::size_t>(placement_.ranks);
    scratch = std::max(scratch, comm::quantized_gather_scratch_bytes(placement_.ranks, largest, spans, *quantized_));
  }
  for (std::size_t i = 0; i < in_flight; ++i) {
    scratch_.push_back(memory.take<std::byte>(Kind::buffers, scratch, "messages"));
  }
}

Parameters::Schedule Parameters::schedule(const Visits& visits, const std::vector<std::string>& names,
                                          const GatherOptions& options) const {
  std::vector<std::size_t> bytes_of;
  for (const Holding& h : holdings_) bytes_of.push_back(h.gathered ? h.elements * size_of(states_.dtype()) : 0);
  ZeroOptions zero = options.zero;
  if (!options.overlap) zero.prefetch_units = 0;
  Schedule pass;
  pass.plan = plan_gathers(visits, bytes_of, names, zero);
  pass.starting.resize(visits.size());
  for (std::size_t k = 0; k < pass.plan.residences.size(); ++k) pass.starting[pass.plan.residences[k].start].push_back(k);
  return pass;
}

void Parameters::begin(Pass pass) {
  require(held_ == 0, "a pass begins while parameters of the one before are in use");
  pass_ = &passes_[static_cast<int>(pass)];
  visit_ = 0;
}

const void* Parameters::acquire(int unit) {
  if (gathers_ && held_++ == 0) enter_visit();
  if (!holdings_[static_cast<std::size_t>(unit)].gathered) {
    await_published(published_with_[static_cast<std::size_t>(unit)]);
    return states_.parameters(unit).data();
  }
  const std::size_t wanted = residence_of(unit);
  const auto awaited = [&](const Gather& g) { return g.residence == wanted; };
  while (std::any_of(gathering_.begin(), gathering_.end(), awaited)) finish_gather();
  return whole(pass_->plan.residences[wanted]).data();
}

void Parameters::release(int) {
  if (gathers_ && --held_ == 0) leave_visit();
}

/// The gathers that the plan starts here, in the same order on all ranks.
void Parameters::enter_visit() {
  require(pass_ != nullptr && visit_ < pass_->plan.visits.size(), "visit ", visit_, " is not in the pass's plan");
  for (const std::size_t residence : pass_->starting[visit_]) start_gather(residence);
}

void Parameters::leave_visit() {
  for (const Residence& r : pass_->plan.residences) {
    if (r.last != visit_) continue;
    const trace::OnBehalfOf unit(r.unit);
    const trace::Region region(trace::Level::comm, trace::Kind::phase, "release", whole(r).size());
#ifndef NDEBUG
    std::memset(whole(r).data(), 0xff, whole(r).size());  // NaN in every dtype
#endif
  }
  ++visit_;
}

std::size_t Parameters::residence_of(int unit) const {
  const auto here = [&](const Residence& r) { return r.unit == unit && r.first <= visit_ && visit_ <= r.last; };
  const auto& residences = pass_->plan.residences;
  const auto found = std::find_if(residences.begin(), residences.end(), here);
  require(found != residences.end(), "unit ", unit, " is not in visit ", visit_, " of the pass's plan");
  return static_cast<std::size_t>(found - residences.begin());
}

Span<std::byte> Parameters::whole(const Residence& r) const {
  const std::size_t elements = holdings_[static_cast<std::size_t>(r.unit)].elements;
  return gathered_.subspan(r.offset, elements * size_of(states_.dtype()));
}

void Parameters::start_gather(std::size_t residence) {
  const Residence& r = pass_->plan.residences[residence];
  const Holding& holding = holdings_[static_cast<std::size_t>(r.unit)];
  const trace::OnBehalfOf unit(r.unit);
  if (gathering_.size() == scratch_.size()) finish_gather();
  const std::size_t size = size_of(states_.dtype());
  const Span<std::byte> scratch = scratch_[gathers_started_++ % scratch_.size()];
  const bool near = secondary_.fresh(r.unit);
  if (near) {
    secondary_.copy_shard(r.unit, whole(r));
  } else {
    const Span<std::byte> own = states_.parameters(r.unit);
    kernels::copy_bytes(own.size(), own.data(), whole(r).data() + holding.shard.begin * size);
  }
  comm::Communicator& group = near ? *placement_.neighbours : *placement_.group;
  const comm::Blocks shards = shard_blocks(whole(r), size, near ? secondary_.ranks() : placement_.ranks);
  comm::Request request = quantized_ && !near
                              ? comm::quantized_all_gather(group, shards, states_.dtype(), *quantized_, scratch,
                                                           &errors_[static_cast<std::size_t>(r.unit)])
                              : comm::all_gather(collectives_, group, shards, scratch);
  gathering_.push_back({residence, !near, std::move(request)});
}

/// The oldest.
void Parameters::finish_gather() {
  Gather& gather = gathering_.front();
  gather.request.wait();
  const Residence& r = pass_->plan.residences[gather.residence];
  if (gather.over_all_ranks) secondary_.refresh(r.unit, whole(r));
  gathering_.pop_front();
}

comm::Blocks Parameters::blocks(const Message& message) const {
  const std::size_t size = size_of(states_.dtype());
  return message_blocks(message, holdings_, placement_.ranks, [&](int unit, Range range) {
    return states_.parameters(unit).subspan(range.begin * size, range.size() * size);
  });
}

void Parameters::publish() {
  settle();
  secondary_.expire();
  for (std::size_t u = 0; u < errors_.size(); ++u) trace_error("parameters", static_cast<int>(u), errors_[u]);
  published_ = publish_started_ = 0;
  while (publish_started_ < std::min(scratch_.size(), messages_.size())) publish_next();
  if (!overlap_ || gathers_) settle();  // gathers use the same scratch memory
}

void Parameters::publish_next() {
  const trace::OnBehalfOf first_used(messages_[publish_started_].parts.front().unit);
  const Span<std::byte> scratch = scratch_[publish_started_ % scratch_.size()];
  publishing_.push_back(comm::all_gather(collectives_, *placement_.group, blocks(messages_[publish_started_]), scratch));
  ++publish_started_;
}

void Parameters::settle() { await_published(messages_.size()); }

/// The next message is started when the oldest has arrived, at the same call of acquire() on all ranks.
void Parameters::await_published(std::size_t messages) {
  for (; published_ < messages; ++published_) {
    publishing_.front().wait();
    publishing_.pop_front();
    if (publish_started_ < messages_.size()) publish_next();
  }
}

}  // namespace shoal::zero
