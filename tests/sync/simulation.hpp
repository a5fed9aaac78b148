// SPDX-License-Identifier: Apache-2.0
// Simulates all nodes on a problem with known gradients, under every strategy, in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "shoal/model/unit.hpp"
#include "shoal/sync/schedule.hpp"

namespace shoal::sync::test {

inline constexpr double local_rate = 0.1, local_momentum = 0.9;

/// Shards of several granules, of a part of one, and empty ones. There are no gaps between tensors, as no optimizer writes
/// to those.
inline std::vector<model::UnitLayout> units() {
  std::vector<model::UnitLayout> result(3);
  const std::size_t rows[] = {41, 3, 90};
  for (std::size_t u = 0; u < result.size(); ++u) {
    result[u].name = "unit " + std::to_string(u);
    result[u].add("weight " + std::to_string(u), {rows[u], 32}, 0);
    result[u].add("bias " + std::to_string(u), {32}, 0);
  }
  return result;
}

/// Index of the unit's first element among all elements. For unit = the number of units: the number of elements.
inline std::size_t first_of(std::size_t unit) {
  static const std::vector<std::size_t> first = [] {
    std::vector<std::size_t> sums = {0};
    for (const model::UnitLayout& layout : units()) sums.push_back(sums.back() + layout.elements);
    return sums;
  }();
  return first[unit];
}
inline std::size_t elements() {
  static const std::size_t count = first_of(units().size());
  return count;
}

/// A number of about 1 from small integers: exact in float.
inline float target(std::size_t node, std::size_t step, std::size_t element) {
  return static_cast<float>((element * 37 + node * 101 + step * 53) % 257) / 128.0F - 1.0F;
}
inline float start(std::size_t element) { return static_cast<float>(element % 33) / 16.0F - 1.0F; }

class Simulation {
 public:
  Simulation(const SyncOptions& options, std::size_t nodes)
      : options_(options), schedule_(options, static_cast<int>(nodes)), x(nodes), v_(nodes), old_(nodes), u_(nodes) {
    for (std::size_t n = 0; n < nodes; ++n) {
      for (std::size_t i = 0; i < elements(); ++i) x[n].push_back(start(i));
      old_[n] = x[n];
      v_[n].assign(elements(), 0);
      u_[n].assign(elements(), 0);
    }
    reference_ = x[0];
  }

  void step(std::size_t t) {
    for (std::size_t n = 0; n < x.size(); ++n) {
      for (std::size_t i = 0; i < elements(); ++i) {
        const double g = x[n][i] - target(n, t, i);
        v_[n][i] = t == 1 ? g : local_momentum * v_[n][i] + g;
        x[n][i] -= local_rate * v_[n][i];
      }
    }
    for (std::size_t i = 0; i < elements(); ++i) synchronise(t, i);
    if (!schedule_.overlaps() || schedule_.averages(t)) sent_ = x;
  }

  /// Largest difference, at a synchronization, between a parameter (or the nodes' mean of it) and the reference.
  double farthest() const { return farthest_; }

  std::vector<double> mean() const {
    std::vector<double> result(elements());
    for (const auto& node : x) {
      for (std::size_t i = 0; i < result.size(); ++i) result[i] += node[i] / static_cast<double>(x.size());
    }
    return result;
  }

 private:
  /// Element i after step t: exchanges, means and outer updates.
  void synchronise(std::size_t t, std::size_t i) {
    const Actions actions = schedule_.actions_after(t);
    const std::size_t nodes = x.size();
    if (options_.sgp_overlap && t > 1 && schedule_.actions_after(t - 1).push) {  // sent one step before
      const auto hop = static_cast<std::size_t>(SyncSchedule::hop(schedule_.pushes_before(t - 1), static_cast<int>(nodes)));
      for (std::size_t n = 0; n < nodes; ++n) x[n][i] += (sent_[(n + nodes - hop) % nodes][i] - sent_[n][i]) / 2;
    }
    if (schedule_.applies_mean(t)) {
      for (std::size_t n = 0; n < nodes; ++n) x[n][i] += reference_[i] - sent_[n][i];
    }
    std::vector<double> now;
    for (const auto& node : x) now.push_back(node[i]);
    if (actions.push && !options_.sgp_overlap) {
      const std::vector<double> before = now;
      const auto hop = static_cast<std::size_t>(SyncSchedule::hop(schedule_.pushes_before(t), static_cast<int>(nodes)));
      for (std::size_t n = 0; n < nodes; ++n) now[n] = (before[n] + before[(n + nodes - hop) % nodes]) / 2;
    }
    const bool averages = actions.average || (actions.outer && schedule_.averages_outer());
    if (averages) {
      for (const double value : now) farthest_ = std::max(farthest_, std::abs(value - reference_[i]));
      double mean = 0;
      for (const double value : now) mean += value / static_cast<double>(nodes);
      now.assign(nodes, mean);
    }
    for (std::size_t n = 0; actions.outer && n < nodes; ++n) now[n] = outer(n, i, now[n]);
    if (averages) {
      farthest_ = std::max(farthest_, std::abs(now[0] - reference_[i]));
      reference_[i] = now[0];
    }
    for (std::size_t n = 0; !schedule_.overlaps() && n < nodes; ++n) x[n][i] = now[n];
  }

  double outer(std::size_t n, std::size_t i, double now) {
    const double moved = old_[n][i] - now;
    if (options_.kind == SyncKind::diloco) {
      u_[n][i] = options_.slowmo_momentum * u_[n][i] + moved;
      old_[n][i] -= options_.slowmo_lr * (moved + options_.slowmo_momentum * u_[n][i]);
    } else {
      u_[n][i] = options_.slowmo_momentum * u_[n][i] + moved / local_rate;
      old_[n][i] -= options_.slowmo_lr * local_rate * u_[n][i];
    }
    return old_[n][i];
  }

  SyncOptions options_;
  SyncSchedule schedule_;

 public:
  std::vector<std::vector<double>> x;  // [node][element]

 private:
  std::vector<std::vector<double>> v_, old_, u_, sent_;
  std::vector<double> reference_;  // the last mean, which may be in flight
  double farthest_ = 0;
};

}  // namespace shoal::sync::test
