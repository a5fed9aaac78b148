// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "plan/memory/savings.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"

namespace shoal::plan {

namespace {

constexpr std::size_t refused = std::numeric_limits<std::size_t>::max();

/// Bytes that rank 0 needs; `refused` if such a run would be refused for another reason (zero.max_live_mb).
std::size_t needed(const zero::EngineOptions& options, int ranks, const ExtraAllocations& extra) {
  try {
    return memory(options, 0, ranks, extra).bytes.total();
  } catch (const Error& error) {
    if (error.code() != Exit::bad_input) throw;
    return refused;
  }
}

/// Describes the first change that makes the run fit, with the bytes needed then; if none does, the one that needs least.
std::string cheapest_change(const zero::EngineOptions& options, int ranks, std::size_t limit, const ExtraAllocations& extra,
                            MoreNodes more_nodes) {
  std::string otherwise = "a smaller model, or fewer ranks per node";
  if (!options.capacity.training) return otherwise;
  std::size_t least = refused;
  std::string least_description;
  for (const Change& change : memory_savings(options, ranks, more_nodes)) {
    const std::size_t bytes = needed(change.options, change.ranks, extra);
    if (bytes <= limit) return text(change.description, ": ", bytes_text(bytes));
    if (bytes < least) {
      least = bytes;
      least_description = change.description;
    }
  }
  return least == refused ? otherwise : text(otherwise, ": even ", least_description, " needs ", bytes_text(least));
}

}  // namespace

std::string excess_text(const MemoryPlan& plan, std::size_t limit) {
  std::ostringstream out;
  out << "the run needs " << bytes_text(plan.bytes.total()) << " per rank, and a rank may take " << bytes_text(limit)
      << "; largest: ";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, plan.parts.size()); ++i) {
    out << (i == 0 ? "" : ", ") << plan.parts[i].label << " " << bytes_text(plan.parts[i].bytes);
  }
  return out.str();
}

std::string memory_problem(const zero::EngineOptions& options, int ranks, std::size_t limit, const ExtraAllocations& extra,
                           MoreNodes more_nodes) {
  const MemoryPlan plan = memory(options, 0, ranks, extra);
  if (plan.bytes.total() <= limit) return {};
  return text(excess_text(plan, limit),
              "; the cheapest way to make it fit: ", cheapest_change(options, ranks, limit, extra, more_nodes));
}

// Bytes grow nearly linearly with the layers, so a few guesses on the line through the last two come close to the largest
// model that fits. If bytes do not grow so (automatic checkpointing), every other guess bisects the remaining range.
std::size_t max_layers_that_fit(const zero::EngineOptions& options, int ranks, std::size_t limit,
                                const ExtraAllocations& extra) {
  struct Guess {
    std::size_t layers = 0, bytes = 0;
  };
  const std::size_t start = std::clamp<std::size_t>(options.model.n_layer, 2, most_layers);
  Guess before, last{start / 2, 0};
  std::size_t fits = 0, too_many = most_layers + 1;
  for (int tries = 1;; ++tries) {
    zero::EngineOptions tried = options;
    tried.model.n_layer = last.layers;
    last.bytes = needed(tried, ranks, extra);
    (last.bytes <= limit ? fits : too_many) = last.layers;
    if (fits + 1 == too_many) return fits;
    double next = tries == 1 ? static_cast<double>(start) : std::floor(static_cast<double>(fits + too_many) / 2);
    if (tries > 1 && last.bytes != refused && before.bytes != refused && (tries < 7 || tries % 2 == 0)) {
      const double slope = (static_cast<double>(last.bytes) - static_cast<double>(before.bytes)) /
                           (static_cast<double>(last.layers) - static_cast<double>(before.layers));
      const double remaining = static_cast<double>(limit) - static_cast<double>(last.bytes);
      if (slope > 0) next = std::floor(static_cast<double>(last.layers) + remaining / slope);
    }
    before = last;
    last.layers =
        static_cast<std::size_t>(std::clamp(next, static_cast<double>(fits + 1), static_cast<double>(too_many - 1)));
  }
}

}  // namespace shoal::plan
