// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/step_messages.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "shoal/base/error.hpp"
#include "shoal/zero/staging.hpp"

namespace shoal::plan {

namespace {

using comm::TreeDirection;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::vector<std::size_t> bytes_of(const BlockSpans& blocks, DType dtype) {
  std::vector<std::size_t> bytes;
  for (const auto& spans : blocks) {
    bytes.push_back(std::accumulate(spans.begin(), spans.end(), std::size_t{0}) * size_of(dtype));
  }
  return bytes;
}

class MessageCosts {
 public:
  MessageCosts(const zero::EngineOptions& options, const std::vector<model::UnitLayout>& units, int group_size,
               const CollectiveCosts& collectives, const Cluster& cluster)
      : options_(&options),
        units_(&units),
        collectives_(&collectives),
        ranks_(cluster.ranks()),
        group_size_(group_size),
        group_(Grouping::consecutive(ranks_, group_size)) {}

  SharedCost reduce(const zero::Bucket& bucket) {
    const BlockSpans blocks = blocks_of(bucket);
    const auto& quantized = options_->gradients.quantized;
    if (!quantized) return tree(TreeDirection::reduce_scatter, group_, bytes_of(blocks, options_->gradients.dtype));
    return std::make_shared<const Cost>(
        collectives_->quantized_reduce_scatter(group_, {blocks}, quantized->ranks_per_node, quantized->formats));
  }

  SharedCost gather(const zero::Bucket& bucket, DType dtype) {
    return tree(TreeDirection::all_gather, group_, bytes_of(blocks_of(bucket), dtype));
  }

  /// A unit's parameters, gathered in groups of `group_size` ranks.
  SharedCost gather(std::size_t unit, int group_size, bool quantized) {
    BlockSpans blocks(at(group_size));
    for (int rank = 0; rank < group_size; ++rank) {
      const Range shard = zero::shard_of((*units_)[unit].elements, rank, group_size);
      if (!shard.empty()) blocks[at(rank)].push_back(shard.size());
    }
    const Grouping grouping = Grouping::consecutive(ranks_, group_size);
    if (!quantized) return tree(TreeDirection::all_gather, grouping, bytes_of(blocks, options_->dtype));
    return std::make_shared<const Cost>(
        collectives_->quantized_all_gather(grouping, {blocks}, zero::gather_format(options_->zero).value()));
  }

 private:
  BlockSpans blocks_of(const zero::Bucket& bucket) const {
    BlockSpans blocks(at(group_size_));
    for (int rank = 0; rank < group_size_; ++rank) {
      for (const zero::Part& part : bucket.parts) {
        const Range range = zero::block_of(part, (*units_)[at(part.unit)].elements, rank, group_size_);
        if (!range.empty()) blocks[at(rank)].push_back(range.size());
      }
    }
    return blocks;
  }

  /// Most units have the same size, so costs are computed once and looked up again.
  SharedCost tree(TreeDirection direction, const Grouping& grouping, const std::vector<std::size_t>& bytes) {
    SharedCost& known = known_[{direction, grouping.groups.size(), bytes}];
    if (!known) {
      known = std::make_shared<const Cost>(direction == TreeDirection::reduce_scatter
                                               ? collectives_->reduce_scatter(grouping, {bytes})
                                               : collectives_->all_gather(grouping, {bytes}));
    }
    return known;
  }

  const zero::EngineOptions* options_;
  const std::vector<model::UnitLayout>* units_;
  const CollectiveCosts* collectives_;
  int ranks_, group_size_;
  Grouping group_;
  std::map<std::tuple<TreeDirection, std::size_t, std::vector<std::size_t>>, SharedCost> known_;
};

/// Stage 3: units are gathered before their use.
void add_gathers(StepMessages& messages, MessageCosts& costs, const zero::EngineOptions& options,
                 const std::vector<model::UnitLayout>& units, const std::vector<zero::ShardLayout>& layouts,
                 int group_size) {
  std::vector<std::size_t> bytes;
  std::vector<std::string> names;
  for (std::size_t u = 0; u < units.size(); ++u) {
    bytes.push_back(layouts[u].gathered ? layouts[u].elements * size_of(options.dtype) : 0);
    names.push_back(units[u].name);
  }
  zero::ZeroOptions zero = options.zero;
  if (!options.gradients.overlap) zero.prefetch_units = 0;
  const zero::UseOrder order = options.order.empty()
                                   ? model::use_order(options.model, options.capacity)
                                   : zero::uses_of_step(options.model, options.capacity, options.parts, options.order).order;
  messages.gathers = zero::plan_gathers(order, bytes, names, zero);
  const bool has_hpz = zero::has_secondary(zero.hpz_size, group_size);
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (!layouts[u].gathered) continue;
    messages.gather[u] = costs.gather(u, group_size, zero.qwz != 0);
    if (has_hpz) messages.gather_hpz[u] = costs.gather(u, static_cast<int>(zero.hpz_size), false);
  }
}

}  // namespace

void check_effort(const zero::AccumulationPlan& accumulation, std::size_t events_of_a_micro_step, int ranks) {
  constexpr double most_events = 5e8;
  const double micro_steps =
      static_cast<double>(accumulation.rounds) * static_cast<double>(accumulation.micro_steps_per_round);
  require_input(micro_steps * static_cast<double>(events_of_a_micro_step) <= most_events, "batch.global: a step of ",
                micro_steps, " micro-batches on a rank is too long to simulate for ", ranks, " ranks");
}

StepMessages step_messages(const zero::EngineOptions& options, const std::vector<model::UnitLayout>& units,
                           const std::vector<zero::ShardLayout>& layouts, const zero::AccumulationPlan& accumulation,
                           const CollectiveCosts& collectives, const Cluster& cluster) {
  const int ranks = accumulation.ranks;
  StepMessages messages;
  messages.gather.resize(units.size());
  messages.gather_hpz.resize(units.size());
  messages.reduced_before_write.resize(units.size());
  messages.gathered_before_use.resize(units.size());
  if (ranks == 1) return messages;
  MessageCosts costs(options, units, ranks, collectives, cluster);
  messages.small = collectives.small(Grouping::consecutive(cluster.ranks(), ranks));
  add_gathers(messages, costs, options, units, layouts, ranks);

  const zero::Sweeps sweeps = zero::sweeps_of(options.parts, units);
  const std::size_t most = options.gradients.bucket_elements;
  messages.buckets = zero::buckets_of_sweeps(units, sweeps, ranks, most);
  check_effort(
      accumulation,
      messages.buckets.size() * at(ranks) / (accumulation.reduced_every_micro_step ? 1 : accumulation.micro_steps_per_round),
      cluster.ranks());
  const bool all_updated = std::none_of(layouts.begin(), layouts.end(), [](const auto& h) { return h.updated_in_part(); });
  for (const zero::Bucket& bucket : messages.buckets) {
    messages.reduce.push_back(costs.reduce(bucket));
  }
  if (all_updated) {
    for (const zero::Bucket& bucket : zero::without_copies(messages.buckets, units, ranks)) {
      messages.gather_gradients.push_back(costs.gather(bucket, options.gradients.dtype));
    }
  }
  if (accumulation.reduced_every_micro_step) {
    Memory counting;
    const zero::Staging staging(units, sweeps, messages.buckets, options.gradients.overlap ? 1 : 0, counting);
    for (std::size_t u = 0; u < units.size(); ++u) {
      messages.reduced_before_write[u] = staging.buckets_before(static_cast<int>(u));
    }
  }

  std::vector<int> gathered_after_step;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (layouts[u].published) gathered_after_step.push_back(static_cast<int>(u));
  }
  for (const zero::Bucket& bucket : zero::make_buckets(units, gathered_after_step, ranks, most)) {
    messages.gather_parameters.push_back(costs.gather(bucket, options.dtype));
    for (const zero::Part& part : bucket.parts) {
      messages.gathered_before_use[at(part.unit)] = messages.gather_parameters.size();
    }
  }
  return messages;
}

}  // namespace shoal::plan
