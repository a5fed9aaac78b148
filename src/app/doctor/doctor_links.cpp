// SPDX-License-Identifier: Apache-2.0
// shoal doctor: messages between ranks.
#include <algorithm>
#include <chrono>
#include <utility>

#include "app/bench/bench_collectives.hpp"
#include "app/doctor/doctor.hpp"
#include "app/support/text_table.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"

namespace shoal::app::doctor {

namespace {

using Clock = std::chrono::steady_clock;
using Pair = std::pair<int, int>;

constexpr std::size_t small_bytes = 8, large_bytes = std::size_t{1} << 20U;
constexpr int small_trips = 20, large_trips = 3;
constexpr std::size_t all_pairs_up_to = 8;  // nodes; of more nodes samples are measured
/// A link is slow if it is this many times slower than the median of its kind.
constexpr double outlier = 3;
/// A network of 1 Gbit/s carries 125 MB/s, and a little more while its buffers are empty.
constexpr double slow_network = 200e6;

/// Between the ranks of a pair, in one direction.
struct Link {
  double latency_s = 0, bytes_per_s = 0;
};

/// Shortest time of one direction, in seconds; 0 on other ranks.
double shortest_trip(comm::Communicator& all, const Pair& pair, Span<std::byte> data, int trips) {
  double shortest = 1e9;
  for (int i = 0; i <= trips; ++i) {
    const Clock::time_point begin = Clock::now();
    ping_pong(all, pair.first, pair.second, data);
    if (i > 0) shortest = std::min(shortest, seconds_since(begin) / 2);  // the first one opens connections
  }
  return all.rank() == pair.first ? shortest : 0;
}

/// Collective. Measures one pair after another, so that they do not disturb each other, until the time is over.
std::vector<Link> measure(Subject& subject, const std::vector<Pair>& pairs) {
  comm::Communicator& all = subject.world.all();
  std::vector<std::byte> data(large_bytes);
  std::vector<Link> links;
  const Clock::time_point begin = Clock::now();
  for (const Pair& pair : pairs) {
    double numbers[2] = {shortest_trip(all, pair, Span<std::byte>(data).first(small_bytes), small_trips),
                         shortest_trip(all, pair, data, large_trips)};
    all.all_reduce(Span<double>(numbers), comm::Reduce::max).wait();
    links.push_back({numbers[0], static_cast<double>(large_bytes) / numbers[1]});
    heartbeat::beat();
    double spent = seconds_since(begin);
    all.broadcast(comm::bytes_of(Span<double>(&spent, 1)), 0).wait();
    if (spent > subject.limit_s) break;
  }
  return links;
}

template <typename Get>
double median_of(const std::vector<Link>& links, const Get& get) {
  std::vector<double> values;
  values.reserve(links.size());
  for (const Link& link : links) values.push_back(get(link));
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string name_of_pair(const comm::Topology& topology, const Pair& pair) {
  const auto name = [&](int r) { return text("rank ", r, " (", topology.hosts[static_cast<std::size_t>(r)], ")"); };
  return name(pair.first) + " and " + name(pair.second);
}

/// Finds pairs whose link is much slower than the others.
void compare(Finding& finding, const comm::Topology& topology, const std::vector<Pair>& pairs,
             const std::vector<Link>& links) {
  const double latency = median_of(links, [](const Link& l) { return l.latency_s; });
  const double rate = median_of(links, [](const Link& l) { return l.bytes_per_s; });
  std::size_t slowest = 0;
  for (std::size_t i = 1; i < links.size(); ++i) {
    if (links[i].bytes_per_s < links[slowest].bytes_per_s) slowest = i;
  }
  finding.found = text(counted(links.size(), "pair"), " of ranks: median latency ", fixed(latency * 1e6, 1), " us, ",
                       rate_text(rate), "; slowest ", rate_text(links[slowest].bytes_per_s));
  if (links.size() < pairs.size())
    finding.found += text(" (", pairs.size() - links.size(), " more were not measured in the time)");
  finding.values = {{"pairs", static_cast<double>(links.size())},
                    {"latency_s", latency},
                    {"bytes_per_s", rate},
                    {"slowest_bytes_per_s", links[slowest].bytes_per_s}};
  if (links.size() >= 3 && links[slowest].bytes_per_s * outlier < rate) {
    finding.worse(Grade::warn, text("between ", name_of_pair(topology, pairs[slowest]), " it is ",
                                    fixed(rate / links[slowest].bytes_per_s, 1),
                                    " times slower than the median; leave out that node, or look at its cable and driver"));
  }
}

/// The first two ranks of nodes.
std::vector<Pair> pairs_within(const comm::Topology& topology) {
  std::vector<Pair> pairs;
  for (int node = 0; node < topology.nodes(); ++node) {
    const auto [first, end] = topology.ranks_of(node);
    if (end - first > 1) pairs.emplace_back(first, first + 1);
  }
  return pairs;
}

/// The first ranks of all pairs of nodes if they are few; otherwise each node with the next one, and with the one half of
/// all nodes further on, so that each takes part in up to four pairs, near and far.
std::vector<Pair> pairs_between(const comm::Topology& topology) {
  const int nodes = topology.nodes();
  const auto leader = [&](int node) { return topology.ranks_of(node).first; };
  std::vector<Pair> pairs;
  const bool all = static_cast<std::size_t>(nodes) <= all_pairs_up_to;
  for (int a = 0; a < nodes; ++a) {
    for (int b = a + 1; all && b < nodes; ++b) pairs.emplace_back(leader(a), leader(b));
    if (all) continue;
    pairs.emplace_back(leader(a), leader((a + 1) % nodes));
    if (a < nodes / 2) pairs.emplace_back(leader(a), leader(a + nodes / 2));
  }
  return pairs;
}

}  // namespace

Finding check_inner_links(Subject& subject) {
  const comm::Topology& topology = subject.world.topology();
  const std::vector<Pair> pairs = pairs_within(topology);
  if (pairs.empty()) return {Grade::ok, "no node has two ranks", "", {}};
  Finding finding;
  compare(finding, topology, pairs, measure(subject, pairs));
  return finding;
}

Finding check_outer_links(Subject& subject) {
  const comm::Topology& topology = subject.world.topology();
  const std::vector<Pair> pairs = pairs_between(topology);
  if (pairs.empty()) return {Grade::ok, "there is one node", "", {}};
  Finding finding;
  compare(finding, topology, pairs, measure(subject, pairs));
  if (finding.values["bytes_per_s"] < slow_network) {
    finding.worse(
        Grade::warn,
        "this is about the rate of 1 Gbit/s; is the MPI library built for the fast network (UCX, libfabric), and does it "
        "choose it (UCX_NET_DEVICES, FI_PROVIDER)? If there is none, see sync.kind");
  }
  return finding;
}

}  // namespace shoal::app::doctor
