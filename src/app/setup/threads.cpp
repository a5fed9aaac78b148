// SPDX-License-Identifier: Apache-2.0
#include "app/setup/threads.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "app/setup/cores.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::app {

namespace {

/// OMP_NUM_THREADS, if it is a number ("4", or "4,2" for nested levels); otherwise 0.
int openmp_limit() {
  const char* const value = std::getenv("OMP_NUM_THREADS");
  if (value == nullptr) return 0;
  int limit = 0;
  const auto [end, status] = std::from_chars(value, value + std::strlen(value), limit);
  return status == std::errc() && (*end == '\0' || *end == ',') ? limit : 0;
}

void require_threads_of_kernels(int asked, const std::string& where) {
  const int most = kernels::most_threads();
  require_input(asked <= most, where, "train.threads = ", asked, ", but the kernels of this program run on ", most,
                " thread, ",
                device::kind() == device::DeviceKind::cuda ? "since they run on a GPU" : "by a Kokkos without threads",
                "; allowed: auto, or ", most);
}

}  // namespace

int choose_threads(comm::World& world, int asked) {
  const std::vector<CoreMask> all = cores_of_node(world);
  const CoreMask& mine = all[static_cast<std::size_t>(world.node().rank())];
  const auto sharing = std::count_if(all.begin(), all.end(), [&](const CoreMask& other) { return overlap(mine, other); });
  const int cores = number_of(mine);
  const int limit = openmp_limit(), most = kernels::most_threads();
  if (asked > 0) {
    require_input(limit == 0 || asked <= limit, "train.threads = ", asked, " is above OMP_NUM_THREADS = ", limit,
                  "; allowed: auto, or from 1 to ", limit);
    require_threads_of_kernels(asked, "");
    return asked;
  }
  const int threads = std::clamp(cores / std::max(1, static_cast<int>(sharing)), 1, most);
  return limit > 0 ? std::min(threads, limit) : threads;
}

int threads_of_job(const config::Invocation& asked, std::uint64_t cores, const std::string& option) {
  const int threads = asked.options.train.threads, given = static_cast<int>(cores);
  if (threads == 0) return std::min(given, kernels::most_threads());
  const std::string place = asked.places.of("train.threads"), where = place.empty() ? "" : place + ": ";
  require_threads_of_kernels(threads, where);
  require_input(threads <= given, where, "train.threads = ", threads, " is above ", option, " = ", given,
                "; allowed: auto, or from 1 to ", given);
  return threads;
}

double cores_per_thread(comm::World& world, int threads) {
  CoreMask any{};
  for (const CoreMask& cores : cores_of_node(world)) any = united(any, cores);
  std::int64_t of_node = threads;
  world.node().all_reduce(Span<std::int64_t>(&of_node, 1), comm::Reduce::sum).wait();
  return std::min(1.0, static_cast<double>(number_of(any)) / static_cast<double>(of_node));
}

}  // namespace shoal::app
