// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/wait.hpp"

#include <sched.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"

namespace shoal::comm {

namespace {

constexpr int tests_at_once = 20;
constexpr int tests_with_yield = 200;
constexpr timespec nap{0, 20'000};

Wait how_to_wait = Wait::sleep;  // until the ranks know how many share a core

}  // namespace

CoreMask usable_cores() {
  CoreMask mask{};
  require(sched_getaffinity(0, sizeof mask, reinterpret_cast<cpu_set_t*>(mask.data())) == 0,
          "sched_getaffinity: ", std::strerror(errno));
  return mask;
}

double core_share(Span<const CoreMask> ranks, std::size_t mine) {
  double share = 0;
  for (std::size_t word = 0; word < ranks[mine].size(); ++word) {
    for (std::uint64_t rest = ranks[mine][word]; rest != 0; rest &= rest - 1) {
      const std::uint64_t core = rest & (~rest + 1);
      int users = 0;
      for (const CoreMask& mask : ranks) users += (mask[word] & core) != 0 ? 1 : 0;
      share += 1.0 / users;
    }
  }
  return share;
}

Wait choose_wait(Wait option, double share) {
  if (const char* const environment = std::getenv("SHOAL_COMM_WAIT")) {
    const std::optional<Wait> value = value_named<Wait>(environment);
    require_input(value.has_value(), "SHOAL_COMM_WAIT = ", environment, ": unknown; allowed: auto, yield, sleep");
    option = *value;
  }
  if (option != Wait::automatic) return option;
  constexpr double rounding = 1e-9;
  return share > 1 - rounding ? Wait::yield : Wait::sleep;
}

void set_wait(Wait how) {
  how_to_wait = how;
  // By default Linux lengthens a sleep by up to 50 us.
  if (how == Wait::sleep) require(prctl(PR_SET_TIMERSLACK, 1UL) == 0, "prctl(PR_SET_TIMERSLACK): ", std::strerror(errno));
}

void Backoff::pause() {
  if (tests_ < tests_with_yield) ++tests_;
  if (tests_ <= tests_at_once) return;
  heartbeat::beat();
  if (how_to_wait == Wait::sleep && tests_ == tests_with_yield) {
    nanosleep(&nap, nullptr);
  } else {
    sched_yield();
  }
}

}  // namespace shoal::comm
