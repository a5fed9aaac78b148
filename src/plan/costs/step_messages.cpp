// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/step_messages.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>

#include "plan/costs/at.hpp"
#include "shoal/base/error.hpp"

namespace shoal::plan {

namespace {

using comm::TreeDirection;

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
    return once(quantized_, {TreeDirection::reduce_scatter, group_.groups.size(), blocks}, [&] {
      return collectives_->quantized_reduce_scatter(group_, {blocks}, quantized->ranks_per_node, quantized->formats);
    });
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
    return once(quantized_, {TreeDirection::all_gather, grouping.groups.size(), blocks}, [&] {
      return collectives_->quantized_all_gather(grouping, {blocks}, zero::gather_format(options_->zero).value());
    });
  }

 private:
  BlockSpans blocks_of(const zero::Bucket& bucket) const {
    BlockSpans blocks(at(group_size_));
    for (int rank = 0; rank < group_size_; ++rank) {
      for (const zero::BucketPiece& part : bucket.parts) {
        const Range range = zero::block_of(part, (*units_)[at(part.unit)].elements, rank, group_size_);
        if (!range.empty()) blocks[at(rank)].push_back(range.size());
      }
    }
    return blocks;
  }

  SharedCost tree(TreeDirection direction, const Grouping& grouping, const std::vector<std::size_t>& bytes) {
    return once(trees_, {direction, grouping.groups.size(), bytes}, [&] {
      return direction == TreeDirection::reduce_scatter ? collectives_->reduce_scatter(grouping, {bytes})
                                                        : collectives_->all_gather(grouping, {bytes});
    });
  }

  /// Costs by direction, number of groups and sizes of blocks.
  template <class Sizes>
  using Known = std::map<std::tuple<TreeDirection, std::size_t, Sizes>, SharedCost>;

  /// Most units have the same size, so costs are computed once and looked up again.
  template <class Sizes, class Compute>
  static SharedCost once(Known<Sizes>& known, const typename Known<Sizes>::key_type& key, const Compute& compute) {
    SharedCost& cost = known[key];
    if (!cost) cost = std::make_shared<const Cost>(compute());
    return cost;
  }

  const zero::EngineOptions* options_;
  const std::vector<model::UnitLayout>* units_;
  const CollectiveCosts* collectives_;
  int ranks_, group_size_;
  Grouping group_;
  Known<std::vector<std::size_t>> trees_;
  Known<BlockSpans> quantized_;
};

}  // namespace

const Cost& StepMessages::of(const zero::StepItem& item) const {
  switch (item.message) {
    case zero::MessageKind::gather: return *(item.near ? gather_hpz : gather)[item.number];
    case zero::MessageKind::reduce: return *reduce[item.number];
    case zero::MessageKind::gather_gradients: return *gather_gradients[item.number];
    case zero::MessageKind::publish: return *publish[item.number];
    case zero::MessageKind::losses:
    case zero::MessageKind::norm: return *small;
    case zero::MessageKind::copied_gradients:
    case zero::MessageKind::copied_parameters: break;
  }
  fail("no message of a group");
}

void check_effort(const zero::AccumulationPlan& accumulation, std::size_t events_of_a_micro_step, int ranks) {
  constexpr double most_events = 5e8;
  const double micro_steps =
      static_cast<double>(accumulation.rounds) * static_cast<double>(accumulation.micro_steps_per_round);
  require_input(micro_steps * static_cast<double>(events_of_a_micro_step) <= most_events, "batch.global: a step of ",
                micro_steps, " micro-batches on a rank is too long to simulate for ", ranks, " ranks");
}

StepMessages step_messages(const zero::EngineOptions& options, const zero::StepSchedule& schedule,
                           const CollectiveCosts& collectives, const Cluster& cluster) {
  const zero::AccumulationPlan& accumulation = schedule.accumulation();
  const std::vector<zero::ShardLayout>& layouts = schedule.layouts();
  const int ranks = accumulation.ranks;
  StepMessages messages;
  messages.gather.resize(layouts.size());
  messages.gather_hpz.resize(layouts.size());
  const int exchanging = schedule.has_all_units() ? ranks : cluster.ranks();
  if (exchanging > 1) {
    messages.small = std::make_shared<const Cost>(collectives.small(Grouping::consecutive(cluster.ranks(), exchanging)));
  }
  if (ranks == 1) {  // parameters that wait in a tier are gathered by one rank, too, which sends nothing
    const auto nothing = std::make_shared<const Cost>();
    std::fill(messages.gather.begin(), messages.gather.end(), nothing);
    return messages;
  }
  check_effort(accumulation,
               schedule.reduced().size() * at(ranks) /
                   (accumulation.reduced_every_micro_step ? 1 : accumulation.micro_steps_per_round),
               cluster.ranks());
  MessageCosts costs(options, schedule.units(), ranks, collectives, cluster);
  const bool has_hpz = zero::has_secondary(options.zero.hpz_size, ranks);
  for (std::size_t u = 0; u < layouts.size(); ++u) {
    if (!layouts[u].gathered) continue;
    messages.gather[u] = costs.gather(u, ranks, options.zero.qwz != 0);
    if (has_hpz) messages.gather_hpz[u] = costs.gather(u, static_cast<int>(options.zero.hpz_size), false);
  }
  for (const zero::Bucket& bucket : schedule.reduced()) messages.reduce.push_back(costs.reduce(bucket));
  for (const zero::Bucket& bucket : schedule.gathered_gradients()) {
    messages.gather_gradients.push_back(costs.gather(bucket, options.gradients.dtype));
  }
  for (const zero::Bucket& bucket : schedule.published()) messages.publish.push_back(costs.gather(bucket, options.dtype));
  return messages;
}

}  // namespace shoal::plan
