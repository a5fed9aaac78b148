// SPDX-License-Identifier: Apache-2.0
#include "app/setup/binding.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "app/setup/cores.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/hash.hpp"

namespace shoal::app {

namespace {

bool share_cores(const std::vector<CoreMask>& ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (overlap(ranks[i], ranks[j])) return true;
    }
  }
  return false;
}

std::string domains_text(const std::vector<CoreMask>& ranks) {
  const std::vector<CoreMask> domains = memory_domains();
  if (domains.size() < 2) return {};
  const bool within = std::all_of(ranks.begin(), ranks.end(), [&](const CoreMask& cores) {
    return std::any_of(domains.begin(), domains.end(), [&](const CoreMask& domain) { return contains(domain, cores); });
  });
  return within ? ", each within a NUMA domain" : ", not each within a NUMA domain";
}

/// first: the number of the node's first rank.
std::string of_node(const std::vector<CoreMask>& ranks, int first) {
  constexpr std::size_t listed = 4;
  const bool same = std::all_of(ranks.begin(), ranks.end(), [&](const auto& cores) { return cores == ranks[0]; });
  if (same && ranks.size() > 1) return text("not bound: ", counted(ranks.size(), "rank"), " share ", list_of(ranks[0]));
  std::string line;
  for (std::size_t i = 0; i < std::min(listed, ranks.size()); ++i) {
    line += text(i == 0 ? "" : ", ", "rank ", first + static_cast<int>(i), ": ", list_of(ranks[i]));
  }
  if (ranks.size() > listed) line += ", ...";
  return line + (share_cores(ranks) ? ", some shared" : "") + domains_text(ranks);
}

}  // namespace

std::string describe_binding(comm::World& world) {
  const std::vector<CoreMask> ranks = cores_of_node(world);
  const int first = world.all().rank() - world.node().rank();
  std::string line = of_node(ranks, first);
  std::string lists;
  for (const CoreMask& cores : ranks) lists += list_of(cores) + ";";
  std::uint64_t least = hash_of(lists), most = least;
  world.all().all_reduce(Span<std::uint64_t>(&least, 1), comm::Reduce::min).wait();
  world.all().all_reduce(Span<std::uint64_t>(&most, 1), comm::Reduce::max).wait();
  if (world.nodes() > 1) {
    line += least == most ? text(" (the same on all ", world.nodes(), " nodes)") : " (other nodes differ)";
  }
  return line;
}

}  // namespace shoal::app
