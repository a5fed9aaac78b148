// SPDX-License-Identifier: Apache-2.0
#include "plan/memory/savings.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"
#include "shoal/model/segment_length.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::plan {

namespace {

/// Returns the change with one more changed option.
Change with(Change change, const std::string& description) {
  change.description += (change.description.empty() ? "" : ", ") + description;
  return change;
}

/// Divisors of a number without the number itself, the largest first.
std::vector<std::size_t> smaller_divisors(std::size_t number) {
  std::vector<std::size_t> small, large;
  for (std::size_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    if (d != number) small.push_back(d);
    if (d != 1 && d * d != number) large.push_back(number / d);
  }
  large.insert(large.end(), small.rbegin(), small.rend());
  return large;
}

const zero::Stage& stage_of(const Change& change) { return zero::stage_of(change.options.zero); }

bool sends_more(const Change& change) { return stage_of(change).shards_gradients || stage_of(change).shards_parameters; }

enum class Ranks { as_given, more_will_follow };

/// A single rank has no other to shard the states with, unless a change to more ranks will follow.
std::vector<Change> higher_stages(const Change& from, Ranks ranks = Ranks::as_given) {
  std::vector<Change> result;
  if (from.ranks == 1 && ranks == Ranks::as_given) return result;
  for (int s = from.options.zero.stage + 1; s < static_cast<int>(zero::stages.size()); ++s) {
    Change change = with(from, text("zero.stage = ", s));
    change.options.zero.stage = s;
    result.push_back(change);
  }
  return result;
}

/// Checkpoint intervals other than that of `from`: auto, and divisors of the depth, each at most half of the one before it.
/// The longest comes first, since it recomputes least.
std::vector<std::int64_t> intervals(const Change& from) {
  constexpr std::int64_t automatic = model::ActivationOptions::automatic;
  const std::size_t layers = from.options.model.n_layer;
  const auto length = [&](std::int64_t interval) { return model::segment_length(layers, interval); };
  std::vector<std::int64_t> all = {automatic};
  for (std::size_t next = layers / 2; next > 0; next /= 2) {
    while (layers % next != 0) --next;
    if (next != length(automatic)) all.push_back(static_cast<std::int64_t>(next));
  }
  std::sort(all.begin(), all.end(), [&](std::int64_t a, std::int64_t b) { return length(a) > length(b); });
  const std::size_t now = length(from.options.capacity.checkpoint_interval);
  all.erase(std::remove_if(all.begin(), all.end(), [&](std::int64_t interval) { return length(interval) == now; }),
            all.end());
  return all;
}

std::vector<Change> checkpointed(const Change& from) {
  std::vector<Change> result;
  for (const std::int64_t interval : intervals(from)) {
    const bool automatic = interval == model::ActivationOptions::automatic;
    Change change =
        with(from, "activation.checkpoint_interval = " + (automatic ? std::string("auto") : std::to_string(interval)));
    change.options.capacity.checkpoint_interval = interval;
    result.push_back(change);
  }
  return result;
}

/// Changes that need the least memory: intervals 1 (the input of every block is kept) and auto (better for very deep
/// models), in every stage from the run's own on. A higher stage does not always need less, since stage 3 gathers.
std::vector<Change> least_memory(const Change& start, Ranks ranks) {
  std::vector<Change> result;
  std::vector<Change> stages = higher_stages(start, ranks);
  stages.insert(stages.begin(), start);
  for (const Change& stage : stages) {
    bool any = false;
    for (const Change& change : checkpointed(stage)) {
      const std::int64_t interval = change.options.capacity.checkpoint_interval;
      if (interval != 1 && interval != model::ActivationOptions::automatic) continue;
      result.push_back(change);
      any = true;
    }
    if (!any) result.push_back(stage);
  }
  return result;
}

/// Changes to more ranks with the same global batch, whose micro-batches the ranks must divide. The limit per rank stays the
/// same only if no more ranks run on a node. All entries of `from` have the same number of ranks.
std::vector<Change> more_ranks(const std::vector<Change>& from) {
  std::vector<Change> result;
  const std::size_t micro_batches = from.front().options.micro_batches;
  for (int ranks = 2 * from.front().ranks; micro_batches % static_cast<std::size_t>(ranks) == 0; ranks *= 2) {
    for (const Change& before : from) {
      Change change = with(before, text(ranks, " ranks, no more of them on a node"));
      change.ranks = ranks;
      result.push_back(change);
    }
  }
  return result;
}

/// Changes to smaller micro-batches with the same global batch. All entries of `from` have the same micro-batch.
std::vector<Change> smaller_micro_batches(const std::vector<Change>& from) {
  std::vector<Change> result;
  const std::size_t now = from.front().options.capacity.sequences;
  for (const std::size_t micro : smaller_divisors(now)) {
    for (const Change& before : from) {
      Change change = with(before, text("batch.micro = ", micro));
      change.options.capacity.sequences = micro;
      change.options.micro_batches *= now / micro;
      result.push_back(change);
    }
  }
  return result;
}

}  // namespace

std::vector<Change> memory_savings(const zero::EngineOptions& options, int ranks, MoreNodes more_nodes) {
  const Change start = {options, ranks, {}};
  const bool grows = more_nodes == MoreNodes::shard_further;
  std::vector<Change> all;
  const auto append = [&](const std::vector<Change>& more) { all.insert(all.end(), more.begin(), more.end()); };
  std::vector<Change> stages = higher_stages(start);
  if (!stages.empty() && !sends_more(stages.front())) {
    all.push_back(stages.front());
    stages.erase(stages.begin());
  }
  append(checkpointed(start));
  append(stages);
  for (const Change& stage : higher_stages(start)) append(checkpointed(stage));
  if (grows) {
    append(more_ranks({start}));
    append(more_ranks(least_memory(start, Ranks::more_will_follow)));
  }
  append(smaller_micro_batches({start}));
  append(smaller_micro_batches(least_memory(start, Ranks::as_given)));
  if (!grows) return all;
  for (const Change& change : smaller_micro_batches(least_memory(start, Ranks::more_will_follow))) {
    append(more_ranks({change}));
  }
  return all;
}

}  // namespace shoal::plan
