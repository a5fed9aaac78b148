// SPDX-License-Identifier: Apache-2.0
// shoal doctor: how much memory a rank may take.
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "app/doctor/doctor.hpp"
#include "app/setup/rank_layout.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/plan/control_groups.hpp"

namespace shoal::app::doctor {

namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();
constexpr double mebibyte = 1 << 20;
constexpr double least_per_rank = 256 * mebibyte;      // a rank with libraries and a small model
constexpr double least_shared_memory = 64 * mebibyte;  // the MPI library's messages within a node

/// "MemAvailable" and others of /proc/meminfo, in bytes.
double meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    double kibibytes = 0;
    if (words >> name >> kibibytes && name == key + ":") return kibibytes * 1024;
  }
  return 0;
}

double number_in(const std::string& file) {
  std::ifstream in(file);
  double value = no_limit;
  if (!(in >> value)) value = no_limit;  // "max"
  return value;
}

/// Bytes of files that the control group has read or written. The system takes this memory back when it needs it.
double bytes_of_files(const std::string& stat, const std::string& prefix) {
  std::ifstream file(stat);
  double sum = 0, value = 0;
  for (std::string name; file >> name >> value;) {
    if (name == prefix + "active_file" || name == prefix + "inactive_file") sum += value;
  }
  return sum;
}

/// What the control groups of this process leave free: the least of it and the groups around it.
double free_in_control_groups() {
  double least = no_limit;
  for (const plan::ControlGroup& group : plan::memory_groups()) {
    const std::string in = group.directory.string() + "/";
    const double most = number_in(in + (group.version_2 ? "memory.max" : "memory.limit_in_bytes"));
    const double taken = number_in(in + (group.version_2 ? "memory.current" : "memory.usage_in_bytes")) -
                         bytes_of_files(in + "memory.stat", group.version_2 ? "" : "total_");
    if (most < 1e18 && taken < no_limit) least = std::min(least, std::max(0.0, most - taken));
  }
  return least;
}

double soft_limit(int resource) {
  struct rlimit limit {};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return no_limit;
  return static_cast<double>(limit.rlim_cur);
}

double shared_memory_free() {
  struct statvfs disk {};
  return ::statvfs("/dev/shm", &disk) == 0 ? static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize) : 0;
}

std::string size_text(double bytes) { return bytes == no_limit ? "unlimited" : bytes_text(static_cast<std::size_t>(bytes)); }

double least_of(comm::World& world, double mine) {
  const std::vector<double> all = gather(world, mine);
  return *std::min_element(all.begin(), all.end());
}

}  // namespace

Finding check_memory(Subject& subject) {
  comm::World& world = subject.world;
  const int ranks_here = ranks_on_host(world, world.rank());
  const double total = meminfo("MemTotal"), available = meminfo("MemAvailable"), in_groups = free_in_control_groups(),
               address = std::min(soft_limit(RLIMIT_AS), soft_limit(RLIMIT_DATA)), pinned = soft_limit(RLIMIT_MEMLOCK);
  const double for_rank = std::min({available / ranks_here, in_groups / ranks_here, address});
  const double least = least_of(world, for_rank), least_address = least_of(world, address),
               least_group = least_of(world, in_groups), least_total = least_of(world, total),
               least_available = least_of(world, available), least_pinned = least_of(world, pinned),
               shared = least_of(world, shared_memory_free());
  Finding finding;
  finding.found = text(size_text(least), " for each rank: ", size_text(least_available), " of ", size_text(least_total),
                       " are free on the node with the least, control groups leave ", size_text(least_group), ", ulimit ",
                       size_text(least_address));
  finding.values = {{"per_rank_bytes", least},
                    {"available_bytes", least_available},
                    {"total_bytes", least_total},
                    {"shared_memory_bytes", shared}};
  if (least < least_per_rank) {
    finding.worse(Grade::fail,
                  "too little for any training; ask the batch system for more memory, or start fewer ranks per node");
  }
  if (least_address < no_limit && least_address < least_available) {
    finding.worse(Grade::warn, "ulimit -v or -d is below what the node has; set it to unlimited");
  }
  if (least_pinned < 64 * mebibyte && world.nodes() > 1) {
    finding.worse(Grade::warn, text("only ", size_text(least_pinned),
                                    " may be pinned (ulimit -l), which fast networks need; set it to unlimited"));
  }
  if (shared < least_shared_memory && world.size() > 1) {
    finding.worse(Grade::warn,
                  text("/dev/shm has ", size_text(shared), " free, through which the MPI library sends within nodes; ",
                       "remove old files there, or enlarge it"));
  }
  return finding;
}

}  // namespace shoal::app::doctor
