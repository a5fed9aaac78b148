// SPDX-License-Identifier: Apache-2.0
#include "app/setup/cores.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "shoal/base/error.hpp"

namespace shoal::app {

namespace {

constexpr std::size_t bits = 64;  // of a word of a CoreMask

std::size_t most_cores(const CoreMask& cores) { return cores.size() * bits; }
bool has(const CoreMask& cores, std::size_t core) { return (cores[core / bits] >> core % bits & 1U) != 0; }

}  // namespace

std::vector<CoreMask> cores_of_node(comm::World& world) {
  const CoreMask mine = comm::usable_cores();
  std::vector<CoreMask> all(static_cast<std::size_t>(world.node().size()));
  world.node().all_gather(comm::const_bytes_of(Span<const CoreMask>(&mine, 1)), comm::bytes_of(Span<CoreMask>(all))).wait();
  return all;
}

std::vector<CoreMask> memory_domains() {
  std::vector<CoreMask> domains;
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", absent)) {
    std::ifstream file(entry.path() / "cpulist");
    std::string list;
    if (!std::getline(file, list)) continue;
    if (const CoreMask cores = cores_in(list); number_of(cores) > 0) domains.push_back(cores);
  }
  return domains;
}

int number_of(const CoreMask& cores) {
  int number = 0;
  for (const std::uint64_t word : cores) number += std::popcount(word);
  return number;
}

bool overlap(const CoreMask& one, const CoreMask& other) {
  for (std::size_t i = 0; i < one.size(); ++i) {
    if ((one[i] & other[i]) != 0) return true;
  }
  return false;
}

bool contains(const CoreMask& whole, const CoreMask& part) { return united(whole, part) == whole; }

CoreMask united(const CoreMask& one, const CoreMask& other) {
  CoreMask both = one;
  for (std::size_t i = 0; i < both.size(); ++i) both[i] |= other[i];
  return both;
}

std::string list_of(const CoreMask& cores) {
  std::string list;
  const std::size_t end = most_cores(cores);
  for (std::size_t first = 0; first < end; ++first) {
    if (!has(cores, first)) continue;
    std::size_t last = first;
    while (last + 1 < end && has(cores, last + 1)) ++last;
    list += text(list.empty() ? "" : ",", first, last == first ? "" : text("-", last));
    first = last;
  }
  return list;
}

CoreMask cores_in(std::string_view list) {
  CoreMask cores{};
  const char *at = list.data(), *const end = at + list.size();
  const auto number = [&](std::size_t& value) {
    const auto [behind, status] = std::from_chars(at, end, value);
    at = behind;
    return status == std::errc();
  };
  for (; at < end; ++at) {  // at a number, then behind its comma
    std::size_t first = 0, last = 0;
    if (!number(first)) break;
    last = first;
    if (at < end && *at == '-' && (++at, !number(last))) break;
    for (std::size_t core = first; core <= std::min(last, most_cores(cores) - 1); ++core) {
      cores[core / bits] |= std::uint64_t{1} << core % bits;
    }
    if (at == end || *at != ',') break;
  }
  return cores;
}

}  // namespace shoal::app
