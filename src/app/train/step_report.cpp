// SPDX-License-Identifier: Apache-2.0
#include "app/train/step_report.hpp"

#include <algorithm>

#include "app/support/collective.hpp"
#include "shoal/base/error.hpp"

namespace shoal::app {

namespace {

/// Values of all nodes, [node][value]. Each comes from one rank and is added to zeros of the others, which is exact.
class Gathered {
 public:
  Gathered(comm::World& world, const sync::NodeGroups& groups, const std::vector<double>& own)
      : count_(own.size()), all_(own.size() * static_cast<std::size_t>(groups.across.ranks)) {
    if (groups.node.rank == 0) std::copy(own.begin(), own.end(), all_.begin() + at(groups.across.rank, 0));
    world.all().all_reduce(Span<double>(all_), comm::Reduce::sum).wait();
  }
  double operator()(int node, std::size_t value) const { return all_[static_cast<std::size_t>(at(node, value))]; }

 private:
  std::ptrdiff_t at(int node, std::size_t value) const {
    return static_cast<std::ptrdiff_t>(static_cast<std::size_t>(node) * count_ + value);
  }
  std::size_t count_;
  std::vector<double> all_;
};

enum Field : std::size_t { loss, norm, overflow, broken, scale, fields };

/// The field `broken`: 0, or how bad it is.
constexpr double not_finite = 1, ends_the_run = 2;

double how_broken(const StepReport& report) {
  if (report.at_least_scale) return ends_the_run;
  return report.broken.empty() ? 0 : not_finite;
}

}  // namespace

void exchange_reports(comm::World& world, const sync::NodeGroups& groups, std::vector<StepReport>& reports, bool stop) {
  std::vector<double> own;
  for (const StepReport& r : reports) {
    own.insert(own.end(), {r.loss, r.norm, r.overflow ? 1.0 : 0.0, how_broken(r), r.loss_scale});
  }
  own.push_back(stop ? 1.0 : 0.0);
  const Gathered all(world, groups, own);
  const int nodes = groups.across.ranks;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    StepReport& report = reports[i];
    report.loss = report.norm = 0;
    report.overflow = report.updated = false;
    report.loss_scale = all(0, i * fields + scale);
    int first_broken = -1;  // of those where it is worst
    double worst = 0;
    for (int n = 0; n < nodes; ++n) {
      report.loss += all(n, i * fields + loss) / nodes;
      report.norm += all(n, i * fields + norm) / nodes;
      report.overflow |= all(n, i * fields + overflow) != 0;
      report.updated |= all(n, i * fields + overflow) == 0 && all(n, i * fields + broken) == 0;
      if (all(n, i * fields + broken) <= worst) continue;
      worst = all(n, i * fields + broken);
      first_broken = n;
    }
    report.at_least_scale = worst == ends_the_run;
    if (first_broken < 0) continue;
    const std::string reason = text("node ", first_broken, ": ", report.broken);
    report.broken = broadcast_text(world.all(), reason, first_broken * groups.node.ranks);
  }
  for (int n = 0; n < nodes; ++n) reports.back().stop |= all(n, own.size() - 1) != 0;
}

std::map<std::string, double> gather_numbers(comm::World& world, const sync::NodeGroups& groups,
                                             const std::map<std::string, double>& own) {
  std::vector<double> values(own.size());
  std::transform(own.begin(), own.end(), values.begin(), [](const auto& entry) { return entry.second; });
  const Gathered all(world, groups, values);
  std::map<std::string, double> result;
  for (int n = 0; n < groups.across.ranks; ++n) {
    std::size_t i = 0;
    for (const auto& [name, value] : own) result[text("node/", n, "/", name)] = all(n, i++);
  }
  return result;
}

std::map<std::string, double> numbers_of_node(const std::map<std::string, double>& all, const sync::NodeGroups& groups) {
  std::map<std::string, double> own;
  for (const int node : {0, groups.across.rank}) {
    const std::string prefix = text("node/", node, "/");
    for (const auto& [name, value] : all) {
      if (name.starts_with(prefix)) own[name.substr(prefix.size())] = value;
    }
  }
  for (const auto& [name, value] : all) own.try_emplace(name, value);
  return own;
}

}  // namespace shoal::app
