// SPDX-License-Identifier: Apache-2.0
#include "app/bench/bench_comm.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "app/support/collective.hpp"
#include "app/support/statistics.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/device/cells.hpp"

namespace shoal::app {

namespace {

using Clock = std::chrono::steady_clock;

/// Shorter operations are timed several in a row, because the ranks leave the barrier before them at different times, up to
/// some microseconds.
constexpr double shortest_s = 0.002;
constexpr std::size_t fewest_repetitions = 3, most_operations_each = 500;

std::uint64_t sum(comm::World& world, std::uint64_t mine) {
  world.all().all_reduce(Span<std::uint64_t>(&mine, 1), comm::Reduce::sum).wait();
  return mine;
}

/// Mean seconds of one of these operations on the slowest rank. The device has no work left at either end.
double time(comm::World& world, const Collective& collective, Work& work, std::size_t operations) {
  device::wait_for_device();
  world.all().barrier().wait();
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = 0; i < operations; ++i) collective.run(work);
  device::wait_for_device();
  const double mine = std::chrono::duration<double>(Clock::now() - begin).count();
  return largest(world.all(), mine) / static_cast<double>(operations * static_cast<std::size_t>(collective.trips()));
}

comm::Traffic traffic_of_all(comm::World& world) {
  comm::Traffic mine;
  for (const auto& [operation, sent] : comm::traffic()) {
    mine.intra += sent.intra;
    mine.inter += sent.inter;
  }
  return {sum(world, mine.intra), sum(world, mine.inter)};
}

CommRow measure(comm::World& world, const Collective& collective, const comm::Hierarchy& groups, int ranks,
                std::size_t bytes, const CommBenchOptions& options) {
  heartbeat::phase("bench");
  CommRow row;
  row.collective = collective.name;
  row.how = collective.how;
  const comm::Communicator& group = groups.all;
  row.group = group.name();
  row.ranks = ranks;
  Work work(groups, bytes);
  const bool takes_part = group.size() > 1;
  row.bytes = static_cast<std::size_t>(largest(world.all(), takes_part ? static_cast<double>(work.bytes()) : 0));

  Collective idle = collective;
  idle.run = [](Work&) {};
  const Collective& run = takes_part ? collective : idle;
  work.fill(collective.effect);
  comm::reset_traffic();
  run.run(work);
  row.sent = traffic_of_all(world);
  row.wrong = sum(world, takes_part ? work.wrong(collective) : 0);
  row.operations = 1;

  work.clear();
  double once = time(world, run, work, 1);
  for (std::size_t i = 1; i < options.warm_up; ++i) once = std::min(once, time(world, run, work, 1));
  row.operations += std::max<std::size_t>(options.warm_up, 1);

  const auto wanted = static_cast<std::size_t>(std::ceil(shortest_s / std::max(once, 1e-9)));
  row.operations_each = std::clamp<std::size_t>(wanted, 1, most_operations_each);
  std::vector<double> seconds;
  double spent = 0;
  while (seconds.size() < options.repetitions && (spent < options.row_seconds || seconds.size() < fewest_repetitions)) {
    seconds.push_back(time(world, run, work, row.operations_each));
    spent += seconds.back() * static_cast<double>(row.operations_each * static_cast<std::size_t>(collective.trips()));
  }
  row.repetitions = seconds.size();
  row.operations += row.repetitions * row.operations_each;
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  row.min_s = *least;
  row.max_s = *most;
  row.median_s = median(seconds);
  row.algorithm_bandwidth = static_cast<double>(row.bytes) / row.median_s;
  row.bus_bandwidth = row.algorithm_bandwidth * collective.bus_factor(ranks);
  return row;
}

bool named(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool wanted(const Collective& collective, const std::vector<std::string>& list) {
  const std::string name(collective.name);
  return list.empty() || named(list, name) || named(list, name + ":" + std::string(collective.how));
}

void check_names(const CommBenchOptions& options) {
  std::string known;
  for (const Collective& c : bench_collectives()) known += text(known.empty() ? "" : ", ", c.name, ":", c.how);
  for (const std::string& name : options.collectives) {
    const auto& all = bench_collectives();
    const bool found = std::any_of(all.begin(), all.end(), [&](const Collective& c) { return wanted(c, {name}); });
    require_input(found, "--only ", name, ": no such collective; allowed: names with or without their algorithm, of ",
                  known);
  }
  for (const std::string& name : options.groups) {
    require_input(name == "node" || name == "across" || name == "all", "--groups ", name,
                  ": no such group; allowed: node, across, all");
  }
}

/// The kinds of groups that were asked for, or else all kinds that differ from each other.
std::vector<std::string> kinds_to_measure(const comm::Topology& topology, const std::vector<std::string>& asked) {
  if (!asked.empty()) return asked;
  if (topology.nodes() == 1) return {"node"};
  if (topology.ranks_per_node() == 1) return {"across"};
  return {"node", "across", "all"};
}

/// Returns the groups of this kind, and how their ranks are divided into nodes.
comm::Hierarchy groups_named(comm::World& world, const std::string& name) {
  comm::Communicator& alone = world.consecutive(1);
  if (name == "node") return {world.node(), world.node(), alone};
  if (name == "across") return {world.across(), alone, world.across()};
  return {world.all(), world.node(), world.across()};
}

/// The first operation on arenas makes the communicators of queued groups, and all ranks must take part in it, which they do
/// not in a ping-pong. It would also be slow.
void start_groups(comm::World& world) {
  if (!world.all().queued()) return;
  Span<float> number;
  const device::DeviceMemory memory([&](Memory& m) { number = m.take<float>(Kind::buffers, 1, "number"); });
  world.all().broadcast(comm::bytes_of(number), 0).wait();
}

}  // namespace

std::vector<CommRow> bench_comm(comm::World& world, const CommBenchOptions& options,
                                const std::function<void(const CommRow&)>& done) {
  check_names(options);
  start_groups(world);
  std::vector<CommRow> rows;
  for (const std::string& kind : kinds_to_measure(world.topology(), options.groups)) {
    const comm::Hierarchy groups = groups_named(world, kind);
    const auto ranks = static_cast<int>(largest(world.all(), groups.all.size()));
    if (ranks == 1) continue;
    for (const Collective& collective : bench_collectives()) {
      if (!wanted(collective, options.collectives)) continue;
      if (collective.equal_nodes && world.topology().ranks_per_node() == 0) continue;
      const bool sized = collective.effect != Effect::nothing;
      for (std::size_t bytes = sized ? options.min_bytes : 0; bytes <= options.max_bytes; bytes *= options.factor) {
        rows.push_back(measure(world, collective, groups, ranks, bytes, options));
        done(rows.back());
        if (!sized) break;
      }
    }
  }
  return rows;
}

}  // namespace shoal::app
