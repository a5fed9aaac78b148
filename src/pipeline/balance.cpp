// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/balance.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <tuple>
#include <utility>

#include "shoal/base/error.hpp"

namespace shoal::pipeline {

namespace {

constexpr double impossible = std::numeric_limits<double>::infinity();

/// The dynamic program: best_[part][first] is the least largest cost if the parts from `part` on divide the blocks from
/// `first` on.
class Table {
 public:
  Table(const std::vector<double>& costs, std::size_t parts, const Fits& fits) : costs_(costs), fits_(fits) {
    best_.assign(parts + 1, std::vector<double>(costs.size() + 1, impossible));
    best_[parts][costs.size()] = 0;
    for (std::size_t part = parts; part-- > 0;) {
      for (std::size_t first = costs.size(); first-- > 0;) {
        double& best = best_[part][first];
        for_each_end(part, first, [&](std::size_t end, double sum) {
          best = std::min(best, std::max(sum, best_[part + 1][end]));
          return sum < best;  // more blocks only cost more
        });
      }
    }
  }

  std::optional<Balance> balance() const {
    const double least = best_[0][0];
    if (least == impossible) return std::nullopt;
    Balance balance;
    for (std::size_t part = 0, first = 0; part + 1 < best_.size(); ++part) {
      std::size_t chosen = first;
      for_each_end(part, first, [&](std::size_t end, double sum) {
        if (std::max(sum, best_[part + 1][end]) <= least) chosen = end;
        return chosen == first;
      });
      balance.push_back(chosen - first);
      first = chosen;
    }
    return balance;
  }

 private:
  /// Calls visit(end, sum of the costs of [first, end)) for each end with which the blocks fit into the part, as long as it
  /// returns true.
  template <typename Visit>
  void for_each_end(std::size_t part, std::size_t first, Visit visit) const {
    double sum = 0;
    for (std::size_t end = first + 1; end <= costs_.size(); ++end) {
      sum += costs_[end - 1];
      if (fits_ && !fits_(part, {first, end})) return;
      if (!visit(end, sum)) return;
    }
  }

  const std::vector<double>& costs_;
  const Fits& fits_;
  std::vector<std::vector<double>> best_;
};

}  // namespace

std::optional<Balance> least_largest(const std::vector<double>& costs, std::size_t parts, const Fits& fits) {
  require(parts > 0 && costs.size() >= parts, costs.size(), " blocks for ", parts, " parts");
  return Table(costs, parts, fits).balance();
}

Balance shortened(Balance balance, const StepTime& step, const Possible& possible, std::size_t most_calls) {
  double shortest = step(balance);
  std::size_t calls = 1;
  while (true) {
    std::vector<std::pair<double, Balance>> shorter;
    for (std::size_t from = 0; from < balance.size(); ++from) {
      for (std::size_t to = 0; to < balance.size(); ++to) {
        if (from == to || balance[from] == 1 || calls == most_calls) continue;
        Balance moved = balance;
        --moved[from];
        ++moved[to];
        const double time = step(moved);
        ++calls;
        if (time < shortest) shorter.emplace_back(time, std::move(moved));
      }
    }
    std::sort(shorter.begin(), shorter.end());
    const auto found =
        std::find_if(shorter.begin(), shorter.end(), [&](const auto& moved) { return possible(moved.second); });
    if (found == shorter.end()) return balance;
    std::tie(shortest, balance) = *found;
  }
}

BalanceText read_balance(std::string_view text, std::size_t parts, std::size_t blocks) {
  if (text == "auto") return {};
  const auto wrong = [](const auto&... words) { return BalanceText{std::nullopt, shoal::text(words...)}; };
  Balance balance;
  std::size_t sum = 0;
  for (const char *at = text.data(), *const end = at + text.size();; ++at) {
    std::size_t number = 0;
    const auto [behind, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (behind != end && *behind != ',')) {
      return wrong("is not a list of whole numbers without spaces, such as 3,2,1");
    }
    if (number == 0) return wrong("part ", balance.size(), " (counted from 0) has no block; each part needs at least one");
    if (number > blocks) return wrong("part ", balance.size(), " (counted from 0) has ", number, " blocks of ", blocks);
    balance.push_back(number);
    sum += number;
    at = behind;
    if (at == end) break;
  }
  if (balance.size() != parts) return wrong("names ", balance.size(), " parts, but there are ", parts);
  if (sum != blocks) return wrong("adds up to ", sum, " blocks, but the model has ", blocks);
  return {balance, {}};
}

std::vector<Range> units_of(const Balance& balance) {
  std::vector<Range> units;
  std::size_t first = 1;  // unit 0 is the embedding
  for (const std::size_t blocks : balance) {
    units.push_back({first, first + blocks});
    first += blocks;
  }
  units.front().begin = 0;
  ++units.back().end;
  return units;
}

}  // namespace shoal::pipeline
