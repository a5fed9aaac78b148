// SPDX-License-Identifier: Apache-2.0
#include "app/setup/device_start.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "app/setup/connections.hpp"
#include "app/setup/gpu_places.hpp"
#include "app/setup/rank_layout.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/base/output.hpp"
#include "shoal/comm/gpu_aware.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/taken.hpp"
#include "shoal/device/unit.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::app {

namespace {

using device::Unit;

bool on_gpu() { return device::kind() == device::DeviceKind::cuda; }

[[noreturn]] void refuse(const std::string& message) { throw Error(Exit::failed, Seen::everywhere, message); }

bool may_share() {
  const char* const given = std::getenv("SHOAL_SHARE_GPU");
  if (given == nullptr) return false;
  const std::string_view asked = given;
  require_input(asked == "0" || asked == "1", "SHOAL_SHARE_GPU=", asked, ": allowed: 0, 1");
  return asked == "1";
}

/// Nodes of comm.ranks_per_node are parts of a machine, so machines are told apart by the names of their hosts.
device::RankPlace place_of(const comm::World& world, int rank) {
  const std::vector<std::string>& hosts = world.topology().hosts;
  device::RankPlace place;
  place.local = static_cast<int>(std::count(hosts.begin(), hosts.begin() + rank, hosts[static_cast<std::size_t>(rank)]));
  place.ranks = ranks_on_host(world, rank);
  return place;
}

std::string rank_text(const comm::World& world, std::size_t rank) {
  return text("rank ", rank, " (", world.topology().hosts[rank], ")");
}

void require_one_each(const comm::World& world, const std::vector<Unit>& units) {
  if (may_share()) return;
  for (std::size_t rank = 0; rank < units.size(); ++rank) {
    for (std::size_t other = rank + 1; other < units.size(); ++other) {
      if (units[rank].identity != units[other].identity) continue;
      refuse(text(rank_text(world, rank), " and ", rank_text(world, other), " have the same GPU, ", units[rank].name.data(),
                  ": this machine has ", counted(place_of(world, static_cast<int>(rank)).ranks, "rank"), ", which sees ",
                  counted(units[rank].visible, "GPU"),
                  "; start at most one rank for each GPU, or let them share it by SHOAL_SHARE_GPU=1"));
    }
  }
}

std::string messages_text(comm::World& world) {
  const auto [nccl, version] = comm::device_library_version();
  if (world.all().queued()) return text(nccl, ' ', version);
  if (device::reach() == device::Reach::collectives) return "the MPI library reads and writes the GPUs' memory";
  if (device::reach() == device::Reach::messages) {
    return "the MPI library reads and writes the GPUs' memory, but its collectives go through memory of the host";
  }
  return text("through memory of the host, which is part of the run's staging memory: the MPI library (",
              comm::library_version().second, ") does not read the memory of GPUs");
}

std::vector<std::string> rank_texts(const comm::World& world) {
  std::vector<std::string> ranks;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(world.size()); ++rank) ranks.push_back(rank_text(world, rank));
  return ranks;
}

void warn(const comm::World& world, const std::string& of) {
  if (world.rank() == 0 && !of.empty()) output::complain(text("shoal: ", of, "\n"));
}

/// What each rank says, at most 511 characters of it. Collective.
std::vector<std::string> all_say(comm::World& world, const std::string& own) {
  using Line = std::array<char, 512>;
  Line line{};
  own.copy(line.data(), line.size() - 1);
  std::vector<Line> lines(static_cast<std::size_t>(world.size()));
  world.all().all_gather(comm::bytes_of(Span<Line>(&line, 1)), comm::bytes_of(Span<Line>(lines))).wait();
  std::vector<std::string> said;
  for (const Line& each : lines) said.emplace_back(each.data());
  return said;
}

/// Names the first rank whose GPU is far from its cores.
void warn_of_places(comm::World& world, const Unit& own) {
  const std::vector<std::string> said = all_say(world, far_from_gpu(own, comm::usable_cores()));
  const auto first = std::find_if(said.begin(), said.end(), [](const std::string& one) { return !one.empty(); });
  if (first == said.end()) return;
  warn(world, text(rank_text(world, static_cast<std::size_t>(first - said.begin())), ": ", *first));
}

/// The versions of the libraries that compute on GPUs or send their memory, each of which may be another one on another
/// node.
std::string own_libraries() {
  auto versions = kernels::library_versions();
  versions.push_back(comm::device_library_version());
  std::string all;
  for (const auto& [name, version] : versions) {
    if (name != "compiler" && !version.empty()) all += text(all.empty() ? "" : ", ", name, ' ', version);
  }
  return all;
}

}  // namespace

std::string difference_of_libraries(const std::vector<std::string>& ranks, const std::vector<std::string>& libraries) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    if (libraries[rank] == libraries.front()) continue;
    return text("libraries differ (", ranks.front(), ": ", libraries.front(), "; ", ranks[rank], ": ", libraries[rank],
                "): results may not have the bits that equal libraries give");
  }
  return {};
}

void open_device(comm::World& world) {
  if (device::kind() == device::DeviceKind::host) return;
  device::RankPlace place = place_of(world, world.all().rank());
  place.reach = world.all().queued() ? device::Reach::collectives : comm::gpu_aware();
  Unit own = device::open(place);
  std::vector<Unit> units(static_cast<std::size_t>(world.size()));
  world.all().all_gather(comm::bytes_of(Span<Unit>(&own, 1)), comm::bytes_of(Span<Unit>(units))).wait();
  for (std::size_t rank = 0; rank < units.size(); ++rank) {
    const char* const problem = units[rank].problem.data();
    if (*problem != '\0') refuse(units.size() == 1 ? problem : text(rank_text(world, rank), ": ", problem));
  }
  if (!on_gpu()) return;
  require_one_each(world, units);
  warn(world, difference_of_units(rank_texts(world), units));
  warn(world, difference_of_libraries(rank_texts(world), all_say(world, own_libraries())));
  warn_of_places(world, own);
}

void require_room(comm::World& world, const ResolvedRun& resolved) {
  connect_groups(world, resolved);
  if (!on_gpu()) return;
  std::uint64_t arenas = resolved.plan.bytes.in(Where::device)-resolved.plan.bytes[Kind::staging],
                room = device::free_bytes();
  world.all().all_reduce(Span<std::uint64_t>(&arenas, 1), comm::Reduce::max).wait();
  world.all().all_reduce(Span<std::uint64_t>(&room, 1), comm::Reduce::min).wait();
  if (arenas <= room) return;
  refuse(text("the run needs ", bytes_text(arenas), " of a GPU's memory, and ", bytes_text(room),
              " are free (on the GPU that has the least); allowed: a smaller batch.micro or model, more ranks, a higher "
              "zero.stage, or GPUs that no other process uses"));
}

TextRows device_rows(comm::World& world) {
  if (device::kind() == device::DeviceKind::host) return {};
  TextRows rows;
  if (const Unit& unit = device::unit(); unit.given()) {
    std::string besides;
    for (const auto& [by, bytes] : device::taken()) {
      besides += text(besides.empty() ? "" : ", ", by, ' ', bytes_text(bytes));
    }
    rows.emplace_back("device memory", text(bytes_text(unit.total_bytes), " of GPU ", unit.index,
                                            "; taken besides the run's own: ", besides));
  }
  if (world.size() > 1) rows.emplace_back("messages", messages_text(world));
  return rows;
}

}  // namespace shoal::app
