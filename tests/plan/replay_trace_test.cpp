// SPDX-License-Identifier: Apache-2.0
// Traces for SimGrid, of all strategies on few ranks: every message that is sent is received, with the same size, and ranks
// send what the plan counts (which other tests hold against what ranks hand to MPI).
#include "shoal/plan/replay_trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include "networks.hpp"
#include "shoal/plan/platform.hpp"
#include "shoal/plan/step_time.hpp"

namespace shoal::plan {
namespace {

struct Case {
  const char* name;
  int stage = 0;
  std::size_t hpz_size = 0;
  int qwz = 0, qgz = 0;
  const char* kind = "every_step";
  sync::AverageType average = sync::AverageType::fp32;
  bool overlaps = false;
};
constexpr std::array cases = {Case{"stage 0", 0},
                              Case{"stage 1", 1},
                              Case{"stage 2", 2},
                              Case{"stage 3", 3},
                              Case{"hpZ", 3, 2},
                              Case{"ZeRO++", 3, 2, 8, 4},
                              Case{"localsgd", 0, 0, 0, 0, "localsgd"},
                              Case{"slowmo", 1, 0, 0, 0, "slowmo"},
                              Case{"delayed", 1, 0, 0, 0, "localsgd", sync::AverageType::fp32, true},
                              Case{"delayed int8", 2, 0, 0, 0, "localsgd", sync::AverageType::int8, true},
                              Case{"sgp", 3, 0, 0, 0, "sgp"},
                              Case{"sgp overlap", 1, 0, 0, 0, "sgp", sync::AverageType::fp32, true}};

struct Line {
  std::string what;
  int partner = 0, tag = 0;
  std::size_t bytes = 0;
};

struct Trace {
  std::vector<std::vector<Line>> processes;
  int lanes = 0;

  Trace(const std::string& text, int process_count, int its_lanes) : lanes(its_lanes) {
    processes.resize(static_cast<std::size_t>(process_count));
    std::istringstream in(text);
    for (std::string words; std::getline(in, words);) {
      std::istringstream line(words);
      std::size_t process = 0;
      Line read;
      line >> process >> read.what;
      if (read.what == "compute") {
        line >> read.bytes;
        EXPECT_GT(read.bytes, 0U);
      } else if (read.what != "init" && read.what != "finalize" && read.what != "waitall") {
        line >> read.partner >> read.tag >> read.bytes;
      }
      EXPECT_FALSE(line.fail()) << words;
      processes.at(process).push_back(read);
    }
  }
  int rank_of(std::size_t process) const { return static_cast<int>(process) / (1 + lanes); }
};

using Channel = std::tuple<int, int, int>;  // from, to, tag
using Messages = std::map<Channel, std::vector<std::size_t>>;

struct Balance {
  Messages sent, received;
  std::map<int, comm::Traffic> by_rank;
};

Balance balance_of(const Trace& trace, int ranks_per_node) {
  Balance result;
  for (std::size_t process = 0; process < trace.processes.size(); ++process) {
    const int own = static_cast<int>(process);
    for (const Line& line : trace.processes[process]) {
      if (line.what == "isend" || line.what == "send") {
        result.sent[{own, line.partner, line.tag}].push_back(line.bytes);
        EXPECT_EQ(line.what == "send", line.tag == lane_tag);
        const int from = trace.rank_of(process), to = trace.rank_of(static_cast<std::size_t>(line.partner));
        EXPECT_TRUE(line.tag != lane_tag || from == to);
        if (line.tag < first_tag) continue;
        comm::Traffic& traffic = result.by_rank[from];
        (from / ranks_per_node == to / ranks_per_node ? traffic.intra : traffic.inter) += line.bytes;
      } else if (line.what == "recv" || line.what == "irecv") {
        result.received[{line.partner, own, line.tag}].push_back(line.bytes);
      }
    }
  }
  return result;
}

/// Returns the number of processes that do not reach their end if receives block, and sends do not. Deadlocks do not depend
/// on time: each process goes on as far as it can, until none can.
std::size_t stuck(const Trace& trace) {
  std::vector<std::size_t> next(trace.processes.size(), 0);
  std::map<Channel, std::size_t> posted, taken;
  std::vector<std::vector<Channel>> open(trace.processes.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t p = 0; p < next.size(); ++p) {
      for (; next[p] < trace.processes[p].size(); ++next[p], moved = true) {
        const Line& line = trace.processes[p][next[p]];
        const int own = static_cast<int>(p);
        const Channel in = {line.partner, own, line.tag};
        if (line.what == "isend" || line.what == "send") ++posted[{own, line.partner, line.tag}];
        if (line.what == "irecv") open[p].push_back(in);
        if (line.what == "recv") {
          if (posted[in] == taken[in]) break;
          ++taken[in];
        }
        if (line.what == "waitall") {
          std::erase_if(open[p], [&](const Channel& channel) {
            if (posted[channel] == taken[channel]) return false;
            ++taken[channel];
            return true;
          });
          if (!open[p].empty()) break;
        }
      }
    }
  }
  std::size_t left = 0;
  for (std::size_t p = 0; p < next.size(); ++p) left += next[p] < trace.processes[p].size() ? 1 : 0;
  return left;
}

struct Inputs {
  zero::EngineOptions engine;
  sync::SyncOptions sync;
  int group = 1;
};

Inputs inputs_of(const Case& strategy, const Cluster& cluster) {
  Inputs inputs;
  inputs.sync.kind = value_named<sync::SyncKind>(strategy.kind).value();
  inputs.sync.localsgd_frequency = 2;
  inputs.sync.slowmo_frequency = 4;
  inputs.sync.average_dtype = strategy.average;
  (sync::pushes(inputs.sync) ? inputs.sync.sgp_overlap : inputs.sync.average_overlap) = strategy.overlaps;
  inputs.sync.average_delay = 1;
  const bool local = sync::trains_locally(inputs.sync);
  inputs.group = local ? cluster.ranks_per_node : cluster.ranks();
  inputs.engine = some_options(strategy.stage);
  inputs.engine.zero.hpz_size = strategy.hpz_size;
  inputs.engine.zero.qwz = strategy.qwz;
  inputs.engine.zero.qgz = strategy.qgz;
  if (strategy.qgz != 0)
    inputs.engine.gradients.quantized = zero::quantized_reduction(inputs.engine.zero, cluster.ranks_per_node);
  if (local) inputs.engine.micro_batches /= static_cast<std::size_t>(cluster.nodes);
  return inputs;
}

constexpr Arithmetic work = {1e-3, 1e-4};

class ReplayTrace : public testing::TestWithParam<Case> {};

TEST_P(ReplayTrace, BalancesAndSendsWhatThePlanCounts) {
  for (const Cluster cluster : {Cluster{1, 2}, Cluster{2, 1}, Cluster{2, 2}, Cluster{4, 2}, Cluster{2, 4}, Cluster{3, 2}}) {
    const Inputs inputs = inputs_of(GetParam(), cluster);
    if (cluster.nodes == 3 && inputs.group == cluster.ranks()) continue;  // 8 micro-batches
    if (cluster.nodes == 1 && sync::trains_locally(inputs.sync)) continue;
    if (cluster.ranks_per_node == 1 && GetParam().hpz_size != 0) continue;
    SCOPED_TRACE(testing::Message() << cluster.nodes << " x " << cluster.ranks_per_node);
    const NetworkModel network = two_levels();
    const auto events = events_in_order(inputs.sync, cluster.ranks() / inputs.group);
    const Recording recording = record(inputs.engine, inputs.sync, inputs.group, cluster, network, work, events);
    std::ostringstream out;
    const auto bytes = write_replay_trace(recording, cluster.ranks(), out);
    EXPECT_EQ(bytes, out.str().size());
    const Trace trace(out.str(), cluster.ranks() * (1 + recording.lanes), recording.lanes);
    for (const auto& lines : trace.processes) {
      EXPECT_EQ(lines.front().what, "init");
      EXPECT_EQ(lines.back().what, "finalize");
    }
    const Balance balance = balance_of(trace, cluster.ranks_per_node);
    EXPECT_EQ(balance.sent, balance.received);
    EXPECT_EQ(stuck(trace), 0U);

    const StepTime planned = step_time(inputs.engine, inputs.sync, inputs.group, cluster, network, work);
    const auto steps = static_cast<double>(period_of(inputs.sync, cluster.ranks() / inputs.group).steps);
    const auto most = std::max_element(balance.by_rank.begin(), balance.by_rank.end(),
                                       [](const auto& a, const auto& b) { return a.second.total() < b.second.total(); });
    ASSERT_NE(most, balance.by_rank.end());
    EXPECT_DOUBLE_EQ(static_cast<double>(most->second.intra), planned.sent.total().intra * steps);
    EXPECT_DOUBLE_EQ(static_cast<double>(most->second.inter), planned.sent.total().inter * steps);

    double computed = 0;  // on rank 0 itself; sums and codes are in addition
    for (const RecordedAction& action : recording.actions) computed += action.seconds;
    EXPECT_NEAR(computed, steps * work.total_s(), 1e-9);
  }
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Strategies, ReplayTrace, testing::ValuesIn(cases), name_of_case);

Recording recorded(int stage, bool overlap, std::size_t events = 1) {
  zero::EngineOptions options = some_options(stage);
  options.gradients.overlap = overlap;
  return record(options, {}, 4, {2, 2}, two_levels(), work, std::vector<SyncEvent>(events, SyncEvent{{}, 0, 1, 1}));
}

TEST(Recording, HasALaneForEachCollectiveInFlight) {
  EXPECT_EQ(recorded(1, false).lanes, 2) << "updated parameters are gathered two messages at a time";
  EXPECT_EQ(recorded(1, true).lanes, 2);
  EXPECT_GT(recorded(3, true).lanes, 2) << "gathers and reductions";
  EXPECT_LE(recorded(3, true).lanes, 4);
}

TEST(Recording, IsSettledIfNoParametersAreInFlightBetweenSteps) {
  EXPECT_TRUE(recorded(0, true).settled);
  EXPECT_FALSE(recorded(1, true).settled);
  EXPECT_TRUE(recorded(3, true).settled);
}

/// Averages that are in flight during other steps follow each other, so they are on the same lane.
TEST(Recording, KeepsOperationsThatFollowEachOtherOnALane) {
  const Cluster four = {4, 1};
  const Inputs inputs = inputs_of(Case{"", 1, 0, 0, 0, "localsgd", sync::AverageType::int8, true}, four);
  const Recording recording =
      record(inputs.engine, inputs.sync, 1, four, two_levels(), work, events_in_order(inputs.sync, 4));
  std::set<int> lanes;
  for (const RecordedOperation& operation : recording.operations) {
    if (!operation.control) lanes.insert(operation.lane);
  }
  EXPECT_EQ(lanes, std::set<int>{1});
}

/// Processes are rank by rank, and ranks node by node.
TEST(PlatformFiles, NameAHostForEveryProcess) {
  EXPECT_EQ(host_file({2, 2}, 1), "node0\nnode0\nnode1\nnode1\n");
  EXPECT_EQ(host_file({2, 1}, 3), "node0\nnode0\nnode0\nnode1\nnode1\nnode1\n");
}

TEST(PlatformFiles, HaveTheMeasuredRatesAndEnoughNodes) {
  const NetworkModel network = two_levels();  // two ranks share a node's link: 2 x 1e8 bytes/s
  const std::string plain = platform_file(Platform::two_level, {3, 2}, network);
  EXPECT_NE(plain.find("radical=\"0-2\""), std::string::npos) << plain;
  EXPECT_NE(plain.find("core=\"2\" bw=\"200000000Bps\" lat=\"5e-06s\""), std::string::npos) << plain;
  EXPECT_NE(plain.find("loopback_bw=\"1e+10Bps\" loopback_lat=\"1e-06s\""), std::string::npos) << plain;
  const std::string tree = platform_file(Platform::fat_tree, {40, 1}, network);
  EXPECT_NE(tree.find("radical=\"0-47\""), std::string::npos) << tree;
  EXPECT_NE(tree.find("topo_parameters=\"2;16,3;1,16;1,1\""), std::string::npos) << tree;
  const std::string dragonfly = platform_file(Platform::dragonfly, {512, 8}, network);
  EXPECT_NE(dragonfly.find("topo_parameters=\"11,1;1,1;12,1;4\""), std::string::npos) << dragonfly;
  EXPECT_NE(dragonfly.find("radical=\"0-527\""), std::string::npos) << dragonfly;
}

}  // namespace
}  // namespace shoal::plan
