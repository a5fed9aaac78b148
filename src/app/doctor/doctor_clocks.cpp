// SPDX-License-Identifier: Apache-2.0
// shoal doctor: the clocks of nodes.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "app/doctor/doctor.hpp"
#include "app/support/text_table.hpp"
#include "shoal/base/error.hpp"

namespace shoal::app::doctor {

namespace {

using Clock = std::chrono::steady_clock;

double wall_clock_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Returns by how much the clock of `other` is ahead of rank 0's, on rank 0, from the shortest of several round trips: its
/// answer was written in the middle of it, give or take half of it.
double skew(comm::Communicator& all, int other, double& uncertainty) {
  double shortest = 1e9, result = 0;
  for (int i = 0; i < 10; ++i) {
    double theirs = 0;
    const Span<std::byte> message = comm::bytes_of(Span<double>(&theirs, 1));
    if (all.rank() == 0) {
      const double begin = wall_clock_s();
      all.send(message, other, 0).wait();
      all.receive(message, other, 0).wait();
      const double end = wall_clock_s();
      if (end - begin < shortest) {
        shortest = end - begin;
        result = theirs - (begin + end) / 2;
      }
    } else if (all.rank() == other) {
      all.receive(message, 0, 0).wait();
      theirs = wall_clock_s();
      all.send(message, 0, 0).wait();
    }
  }
  uncertainty = std::max(uncertainty, shortest / 2);
  return result;
}

}  // namespace

Finding check_clocks(Subject& subject) {
  comm::World& world = subject.world;
  const comm::Topology& topology = world.topology();
  if (world.nodes() < 2) return {Grade::ok, "there is one node", "", {}};
  Finding finding;
  double most = 0, uncertainty = 0;
  int worst = 0;
  const Clock::time_point begin = Clock::now();
  for (int node = 1; node < world.nodes(); ++node) {
    const int other = topology.ranks_of(node).first;
    const double ahead = skew(world.all(), other, uncertainty);
    if (std::abs(ahead) > std::abs(most)) {
      most = ahead;
      worst = other;
    }
    double spent = seconds_since(begin);
    world.all().broadcast(comm::bytes_of(Span<double>(&spent, 1)), 0).wait();
    if (spent > subject.limit_s) break;
  }
  finding.found = text("they differ by at most ", fixed(std::abs(most) * 1e3, 3), " ms (measured to ",
                       fixed(uncertainty * 1e3, 3), " ms)");
  finding.values = {{"skew_s", std::abs(most)}, {"uncertainty_s", uncertainty}};
  if (std::abs(most) > 0.5 + uncertainty) {
    finding.worse(Grade::warn,
                  text("the clock of ", topology.hosts[static_cast<std::size_t>(worst)], " is ", fixed(std::abs(most), 1),
                       " s ", most > 0 ? "ahead" : "behind", "; times in file names and logs will not fit (chrony, ntp)"));
  }
  return finding;
}

}  // namespace shoal::app::doctor
