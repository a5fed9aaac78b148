// SPDX-License-Identifier: Apache-2.0
// shoal doctor: where ranks run, which cores they use, and with how many threads.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "app/doctor/doctor.hpp"
#include "app/setup/cores.hpp"
#include "app/setup/threads.hpp"
#include "app/support/text_table.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/wait.hpp"

namespace shoal::app::doctor {

namespace {

std::map<std::string, std::vector<std::size_t>> ranks_by_host(const comm::Topology& topology) {
  std::map<std::string, std::vector<std::size_t>> result;
  for (std::size_t r = 0; r < topology.hosts.size(); ++r) result[topology.hosts[r]].push_back(r);
  return result;
}

std::vector<CoreMask> gather_masks(comm::World& world) {
  const CoreMask mine = comm::usable_cores();
  std::vector<CoreMask> all(static_cast<std::size_t>(world.size()));
  world.all().all_gather(comm::const_bytes_of(Span<const CoreMask>(&mine, 1)), comm::bytes_of(Span<CoreMask>(all))).wait();
  return all;
}

/// "2", or "2 to 4".
std::string range_text(double least, double most) {
  const auto number = [](double value) { return fixed(value, value == static_cast<int>(value) ? 0 : 2); };
  return least == most ? number(least) : number(least) + " to " + number(most);
}

}  // namespace

Finding check_ranks(Subject& subject) {
  comm::World& world = subject.world;
  Finding finding;
  finding.found = text(counted(world.size(), "rank"), " on ", comm::describe(world.topology()));
  finding.values = {{"ranks", world.size()}, {"nodes", world.nodes()}};
  if (world.size() == 1) {
    finding.worse(Grade::ok, "start it as the training will be started (mpiexec -n RANKS, srun) to check more");
  }
  const std::string unequal = comm::unequal_nodes(world.topology().node_of);
  if (!unequal.empty()) finding.worse(Grade::warn, unequal + "; give every node the same number of ranks");
  if (world.size() > 1 && (world.size() & (world.size() - 1)) != 0) {
    finding.worse(Grade::warn,
                  text("with ", world.size(), " ranks losses are not bit for bit those of 1, 2, 4, 8 ... ranks"));
  }
  return finding;
}

Finding check_cores(Subject& subject) {
  comm::World& world = subject.world;
  const std::vector<CoreMask> masks = gather_masks(world);
  Finding finding;
  double least_share = 1e9, most_share = 0;
  int least = 1 << 30, most = 0;
  std::string crowded;
  bool bound = true;
  for (const auto& [host, ranks] : ranks_by_host(world.topology())) {
    std::vector<CoreMask> here;
    for (const std::size_t r : ranks) here.push_back(masks[r]);
    for (std::size_t i = 0; i < here.size(); ++i) {
      const double share = comm::core_share(here, i);
      const int cores = number_of(here[i]);
      least = std::min(least, cores);
      most = std::max(most, cores);
      least_share = std::min(least_share, share);
      most_share = std::max(most_share, share);
      if (share < 1 - 1e-9 && crowded.empty()) {
        crowded = text("rank ", ranks[i], " (", host, ") has ", fixed(share, 2), " of a core: ranks share cores");
      }
      for (std::size_t j = 0; j < i; ++j) bound = bound && !overlap(here[i], here[j]);
    }
  }
  finding.values = {{"cores_per_rank_min", least_share}, {"cores_per_rank_max", most_share}, {"bound", bound ? 1 : 0}};
  finding.found = text(range_text(least_share, most_share), " cores for each rank, ",
                       bound ? text("bound to ", range_text(least, most)) : "not bound: ranks may move between them");
  if (!crowded.empty()) {
    finding.worse(Grade::warn, crowded + "; start fewer ranks per node, or more nodes (--ntasks-per-node, mpiexec -ppn)");
  } else if (!bound && world.size() > 1) {
    finding.worse(Grade::ok, "bind ranks to cores: srun --cpu-bind=cores, or mpiexec -bind-to core");
  }
  return finding;
}

Finding check_threads(Subject& subject) {
  comm::World& world = subject.world;
  const int threads = choose_threads(world, subject.options.train.threads);
  const double cores = cores_per_thread(world, threads);
  const CoreMask mine = comm::usable_cores();
  const std::vector<CoreMask> domains = memory_domains();
  const auto used = std::count_if(domains.begin(), domains.end(), [&](const CoreMask& d) { return overlap(d, mine); });
  const std::vector<double> all_threads = gather(world, threads), all_cores = gather(world, cores),
                            all_used = gather(world, static_cast<double>(used)),
                            all_domains = gather(world, static_cast<double>(domains.size()));
  const auto [least, most] = std::minmax_element(all_threads.begin(), all_threads.end());
  Finding finding;
  const char* const openmp = std::getenv("OMP_NUM_THREADS");
  finding.found = text(
      range_text(*least, *most), " per rank (OMP_NUM_THREADS ", openmp == nullptr ? "is not set" : openmp, "), in ",
      range_text(*std::min_element(all_used.begin(), all_used.end()), *std::max_element(all_used.begin(), all_used.end())),
      " of ", counted(static_cast<std::size_t>(all_domains.front()), "memory domain"));
  finding.values = {{"threads_min", *least},
                    {"threads_max", *most},
                    {"cores_per_thread", *std::min_element(all_cores.begin(), all_cores.end())}};
  if (finding.values["cores_per_thread"] < 1 && *most > 1) {
    finding.worse(Grade::warn, "there are more threads than cores; lower train.threads or OMP_NUM_THREADS");
  }
  if (*least != *most) finding.worse(Grade::warn, "ranks have different numbers of threads, so the slowest decides");
  for (std::size_t r = 0; r < all_used.size(); ++r) {
    const auto on_node = static_cast<double>(world.node().size());
    if (all_used[r] > 1 && on_node >= all_domains[r]) {
      finding.worse(Grade::warn, text("rank ", r, " runs in ", all_used[r], " memory domains; bind each rank to one: ",
                                      "srun --cpu-bind=ldoms, or mpiexec -bind-to numa"));
      break;
    }
  }
  return finding;
}

}  // namespace shoal::app::doctor
