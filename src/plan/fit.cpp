// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/model/segment_length.hpp"
#include "shoal/plan/notation.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::plan {

namespace {

constexpr std::size_t refused = std::numeric_limits<std::size_t>::max();

/// Bytes that rank 0 needs; `refused` if such a run would be refused for another reason (zero.max_live_mb).
std::size_t needed(const zero::EngineOptions& options, int ranks, const ExtraAllocations& further) {
  try {
    return memory(options, 0, ranks, further).bytes.total();
  } catch (const Error& error) {
    if (error.code() != Exit::bad_input) throw;
    return refused;
  }
}

/// The run with some options changed, and the changes as text.
struct Change {
  zero::EngineOptions options;
  int ranks;
  std::string words;

  Change& add(const std::string& more) {
    words += (words.empty() ? "" : ", ") + more;
    return *this;
  }
};

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

/// Changes that need less memory, in the order of their cost:
/// 1. stage 1, which sends no more bytes;
/// 2. activation checkpointing, which computes up to a third more (long segments recompute less than short ones);
/// 3. stages 2 and 3, which send more; then both;
/// 4. more ranks, alone and then with those of the changes above that save most;
/// 5. a smaller micro-batch, which is slower and changes the order of sums; likewise.
class Remedies {
 public:
  Remedies(const zero::EngineOptions& options, int ranks) : start_{options, ranks, {}} {}

  std::vector<Change> in_order_of_cost() const {
    std::vector<Change> all;
    const auto append = [&](const std::vector<Change>& more) { all.insert(all.end(), more.begin(), more.end()); };
    std::vector<Change> stages = higher_stages(start_);
    if (!stages.empty() && !sends_more(stages.front())) {
      all.push_back(stages.front());
      stages.erase(stages.begin());
    }
    append(checkpointed(start_));
    append(stages);
    for (const Change& stage : higher_stages(start_)) append(checkpointed(stage));
    append(more_ranks({start_}));
    append(more_ranks(thrifty(Others::join)));
    append(smaller_micro_batches({start_}));
    append(smaller_micro_batches(thrifty(Others::as_started)));
    for (const Change& change : smaller_micro_batches(thrifty(Others::join))) append(more_ranks({change}));
    return all;
  }

 private:
  enum class Others { as_started, join };  ///< join: a change to more ranks will follow

  static const zero::Stage& stage(const Change& change) { return zero::stage_of(change.options.zero); }
  static bool sends_more(const Change& change) { return stage(change).shards_gradients || stage(change).shards_parameters; }

  /// A single rank has no other to shard the states with.
  static std::vector<Change> higher_stages(const Change& from, Others others = Others::as_started) {
    std::vector<Change> result;
    if (from.ranks == 1 && others == Others::as_started) return result;
    for (int s = from.options.zero.stage + 1; s < static_cast<int>(zero::stages.size()); ++s) {
      Change change = from;
      change.options.zero.stage = s;
      result.push_back(change.add(text("zero.stage = ", s)));
    }
    return result;
  }

  /// Checkpoint intervals other than that of `from`: auto, and divisors of the depth, each at most half of the one before
  /// it. The longest comes first, since it recomputes least.
  static std::vector<std::int64_t> intervals(const Change& from) {
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

  static std::vector<Change> checkpointed(const Change& from) {
    std::vector<Change> result;
    for (const std::int64_t interval : intervals(from)) {
      Change change = from;
      change.options.capacity.checkpoint_interval = interval;
      const bool automatic = interval == model::ActivationOptions::automatic;
      result.push_back(
          change.add("activation.checkpoint_interval = " + (automatic ? std::string("auto") : std::to_string(interval))));
    }
    return result;
  }

  /// Changes that need the least memory: intervals 1 (the input of every block is kept) and auto (better for very deep
  /// models), in every stage from the run's own on. A higher stage does not always need less, since stage 3 gathers.
  std::vector<Change> thrifty(Others others) const {
    std::vector<Change> result;
    std::vector<Change> stages = higher_stages(start_, others);
    stages.insert(stages.begin(), start_);
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

  /// Changes to more ranks with the same global batch, whose micro-batches the ranks must divide. The limit per rank stays
  /// the same only if no more ranks run on a node. All entries of `from` have the same number of ranks.
  static std::vector<Change> more_ranks(const std::vector<Change>& from) {
    std::vector<Change> result;
    const std::size_t micro_batches = from.front().options.micro_batches;
    for (int ranks = 2 * from.front().ranks; micro_batches % static_cast<std::size_t>(ranks) == 0; ranks *= 2) {
      for (Change change : from) {
        change.ranks = ranks;
        result.push_back(change.add(text(ranks, " ranks, no more of them on a node")));
      }
    }
    return result;
  }

  /// Changes to smaller micro-batches with the same global batch. All entries of `from` have the same micro-batch.
  static std::vector<Change> smaller_micro_batches(const std::vector<Change>& from) {
    std::vector<Change> result;
    const std::size_t now = from.front().options.capacity.sequences;
    for (const std::size_t micro : smaller_divisors(now)) {
      for (Change change : from) {
        change.options.capacity.sequences = micro;
        change.options.micro_batches *= now / micro;
        result.push_back(change.add(text("batch.micro = ", micro)));
      }
    }
    return result;
  }

  Change start_;
};

/// Describes the first change that makes the run fit, with the bytes needed then; if none does, the one that needs least.
std::string cheapest_remedy(const zero::EngineOptions& options, int ranks, std::size_t limit,
                            const ExtraAllocations& further) {
  std::string otherwise = "a smaller model, or fewer ranks per node";
  if (!options.capacity.training) return otherwise;
  std::size_t least = refused;
  std::string least_words;
  for (const Change& change : Remedies(options, ranks).in_order_of_cost()) {
    const std::size_t bytes = needed(change.options, change.ranks, further);
    if (bytes <= limit) return text(change.words, ": ", bytes_text(bytes));
    if (bytes < least) {
      least = bytes;
      least_words = change.words;
    }
  }
  return least == refused ? otherwise : text(otherwise, ": even ", least_words, " needs ", bytes_text(least));
}

}  // namespace

std::string memory_problem(const zero::EngineOptions& options, int ranks, std::size_t limit,
                           const ExtraAllocations& further) {
  const MemoryPlan plan = memory(options, 0, ranks, further);
  if (plan.bytes.total() <= limit) return {};
  std::ostringstream out;
  out << "the run needs " << bytes_text(plan.bytes.total()) << " per rank, and a rank may take " << bytes_text(limit)
      << "; largest: ";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, plan.parts.size()); ++i) {
    out << (i == 0 ? "" : ", ") << plan.parts[i].label << " " << bytes_text(plan.parts[i].bytes);
  }
  out << "; the cheapest way to make it fit: " << cheapest_remedy(options, ranks, limit, further);
  return out.str();
}

// Bytes grow nearly linearly with the layers, so a few guesses on the line through the last two come close to the largest
// model that fits. If bytes do not grow so (automatic checkpointing), every other guess bisects the remaining range.
std::size_t max_layers_that_fit(const zero::EngineOptions& options, int ranks, std::size_t limit,
                                const ExtraAllocations& further) {
  struct Guess {
    std::size_t layers = 0, bytes = 0;
  };
  const std::size_t start = std::clamp<std::size_t>(options.model.n_layer, 2, most_layers);
  Guess before, last{start / 2, 0};
  std::size_t fits = 0, too_many = most_layers + 1;
  for (int tries = 1;; ++tries) {
    zero::EngineOptions tried = options;
    tried.model.n_layer = last.layers;
    last.bytes = needed(tried, ranks, further);
    (last.bytes <= limit ? fits : too_many) = last.layers;
    if (fits + 1 == too_many) return fits;
    double next = tries == 1 ? static_cast<double>(start) : std::floor(static_cast<double>(fits + too_many) / 2);
    if (tries > 1 && last.bytes != refused && before.bytes != refused && (tries < 7 || tries % 2 == 0)) {
      const double slope = (static_cast<double>(last.bytes) - static_cast<double>(before.bytes)) /
                           (static_cast<double>(last.layers) - static_cast<double>(before.layers));
      const double room = static_cast<double>(limit) - static_cast<double>(last.bytes);
      if (slope > 0) next = std::floor(static_cast<double>(last.layers) + room / slope);
    }
    before = last;
    last.layers =
        static_cast<std::size_t>(std::clamp(next, static_cast<double>(fits + 1), static_cast<double>(too_many - 1)));
  }
}

}  // namespace shoal::plan
