// SPDX-License-Identifier: Apache-2.0
#include "binding.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/counted.hpp"
#include "threads.hpp"

namespace shoal::app {

namespace {

namespace fs = std::filesystem;

/// "0-3,8": the cores of a set, as the kernel writes it.
std::string list_of(const cpu_set_t& cores) {
  std::string list;
  for (int first = 0; first < CPU_SETSIZE; ++first) {
    if (!CPU_ISSET(first, &cores)) continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cores)) ++last;
    list += text(list.empty() ? "" : ",", first, last == first ? "" : text("-", last));
    first = last;
  }
  return list;
}

/// Reads such a list.
cpu_set_t set_of(std::string_view list) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  int first = -1, number = -1;
  const auto add = [&] {
    for (int core = std::max(0, first < 0 ? number : first); core <= number && core < CPU_SETSIZE; ++core)
      CPU_SET(core, &cores);
    first = number = -1;
  };
  for (const char c : list) {
    if (c >= '0' && c <= '9' && number < CPU_SETSIZE) number = std::max(0, number) * 10 + (c - '0');
    if (c == '-') first = std::exchange(number, -1);
    if (c == ',') add();
  }
  add();
  return cores;
}

/// The cores of each NUMA domain of this machine.
std::vector<cpu_set_t> numa_domains() {
  std::vector<cpu_set_t> domains;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", none)) {
    std::ifstream file(entry.path() / "cpulist");
    std::string list;
    if (std::getline(file, list) && !list.empty()) domains.push_back(set_of(list));
  }
  return domains;
}

bool overlap(const cpu_set_t& a, const cpu_set_t& b) {
  cpu_set_t both;
  CPU_AND(&both, &a, &b);
  return CPU_COUNT(&both) > 0;
}

bool lies_in(const cpu_set_t& part, const cpu_set_t& whole) {
  cpu_set_t both;
  CPU_AND(&both, &part, &whole);
  return CPU_EQUAL(&both, &part);
}

bool share_cores(const std::vector<cpu_set_t>& ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (overlap(ranks[i], ranks[j])) return true;
    }
  }
  return false;
}

std::string domains_text(const std::vector<cpu_set_t>& ranks) {
  const std::vector<cpu_set_t> domains = numa_domains();
  if (domains.size() < 2) return {};
  const bool within = std::all_of(ranks.begin(), ranks.end(), [&](const cpu_set_t& cores) {
    return std::any_of(domains.begin(), domains.end(), [&](const cpu_set_t& domain) { return lies_in(cores, domain); });
  });
  return within ? ", each within a NUMA domain" : ", not each within a NUMA domain";
}

/// first: the number of the node's first rank.
std::string of_node(const std::vector<cpu_set_t>& ranks, int first) {
  constexpr std::size_t listed = 4;
  const bool same = std::all_of(ranks.begin(), ranks.end(), [&](const auto& cores) { return CPU_EQUAL(&cores, &ranks[0]); });
  if (same && ranks.size() > 1) return text("not bound: ", counted(ranks.size(), "rank"), " share ", list_of(ranks[0]));
  std::string line;
  for (std::size_t i = 0; i < std::min(listed, ranks.size()); ++i) {
    line += text(i == 0 ? "" : ", ", "rank ", first + static_cast<int>(i), ": ", list_of(ranks[i]));
  }
  if (ranks.size() > listed) line += ", ...";
  return line + (share_cores(ranks) ? ", some shared" : "") + domains_text(ranks);
}

/// FNV-1a.
std::uint64_t hash_of(std::string_view words) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : words) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

}  // namespace

std::string describe_binding(comm::World& world) {
  const std::vector<cpu_set_t> ranks = cores_of_node(world);
  const int first = world.all().rank() - world.node().rank();
  std::string line = of_node(ranks, first);
  std::string lists;
  for (const cpu_set_t& cores : ranks) lists += list_of(cores) + ";";
  std::uint64_t least = hash_of(lists), most = least;
  world.all().all_reduce(Span<std::uint64_t>(&least, 1), comm::Reduce::min).wait();
  world.all().all_reduce(Span<std::uint64_t>(&most, 1), comm::Reduce::max).wait();
  if (world.nodes() > 1) {
    line += least == most ? text(" (the same on all ", world.nodes(), " nodes)") : " (other nodes differ)";
  }
  return line;
}

}  // namespace shoal::app
