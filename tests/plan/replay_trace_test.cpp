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
#include <utility>

#include "networks.hpp"
#include "shoal/base/error.hpp"
#include "shoal/plan/platform.hpp"
#include "shoal/plan/step_time.hpp"

namespace shoal::plan {
namespace of_replay_trace_test {

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

bool is_signal(const Line& line) { return line.tag == lane_tag; }

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
        EXPECT_EQ(line.what == "send", is_signal(line));
        EXPECT_EQ(line.bytes == signal_bytes, is_signal(line));
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

enum class Sends { eager, rendezvous };  // the second: a send is complete when its receive has started, but for signals

/// A message that a process has started and not awaited: the n-th of its channel.
struct Open {
  Channel channel;
  std::size_t n = 0;
  bool sends = false, signal = false;
};

/// Returns the number of processes that do not reach their end, or leave messages open. Deadlocks do not depend on time:
/// each process goes on as far as it can, until none can.
class Execution {
 public:
  Execution(const Trace& trace, Sends sends) : trace_(trace), sends_(sends), processes_(trace.processes.size()) {}

  std::size_t stuck() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t p = 0; p < processes_.size(); ++p) {
        while (goes_on(p)) moved = true;
      }
    }
    std::size_t left = 0;
    for (std::size_t p = 0; p < processes_.size(); ++p) {
      left += processes_[p].next < trace_.processes[p].size() || !processes_[p].open.empty() ? 1 : 0;
    }
    return left;
  }

 private:
  struct Process {
    std::size_t next = 0;
    bool started = false;  // the message of the next line
    std::vector<Open> open;
  };

  bool complete(const Open& open) {
    const bool eager = sends_ == Sends::eager || open.signal;
    if (open.sends) return eager || received_[open.channel] >= open.n;
    return sent_[open.channel] >= open.n;
  }

  void start(const Line& line, int own, Process& process) {
    const bool sends = line.what == "isend" || line.what == "send";
    const Channel channel = sends ? Channel{own, line.partner, line.tag} : Channel{line.partner, own, line.tag};
    process.open.push_back({channel, sends ? ++sent_[channel] : ++received_[channel], sends, is_signal(line)});
  }

  bool goes_on(std::size_t p) {
    Process& process = processes_[p];
    if (process.next == trace_.processes[p].size()) return false;
    const Line& line = trace_.processes[p][process.next];
    const bool blocks = line.what == "send" || line.what == "recv";
    if ((blocks || line.what == "isend" || line.what == "irecv") && !std::exchange(process.started, true)) {
      start(line, static_cast<int>(p), process);
    }
    if (blocks) {
      if (!complete(process.open.back())) return false;
      process.open.pop_back();
    }
    if (line.what == "waitall") {
      std::erase_if(process.open, [&](const Open& open) { return complete(open); });
      if (!process.open.empty()) return false;
    }
    process.started = false;
    ++process.next;
    return true;
  }

  const Trace& trace_;
  Sends sends_;
  std::vector<Process> processes_;
  std::map<Channel, std::size_t> sent_, received_;
};

std::size_t stuck(const Trace& trace, Sends sends = Sends::eager) { return Execution(trace, sends).stuck(); }

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
    for (const RecordedAction& action : recording.actions.front()) computed += action.seconds;
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

struct PipelineCase {
  pipeline::Schedule schedule = pipeline::Schedule::one_f_one_b;
  int stages = 2, parts = 1, data_ranks = 1;
  std::size_t turns = 4;
  int zero_stage = 0;
  bool overlap = true;
  bool skip = false;  ///< a direct connection from the embeddings to the output
};

/// Eight layers in parts of the same number of layers, with an embedding that is also the head.
zero::EngineOptions options_of(const PipelineCase& pipeline) {
  zero::EngineOptions options = some_options(pipeline.zero_stage);
  options.model.n_layer = 8;
  options.model.tied_gradient = model::TiedGradient::apart;
  options.model.direct = pipeline.skip;
  options.gradients.overlap = pipeline.overlap;
  options.micro_batches = pipeline.turns * static_cast<std::size_t>(pipeline.data_ranks);
  return options;
}

PipelinePlan plan_of(const PipelineCase& pipeline) {
  PipelinePlan plan;
  plan.shape = {.stages = pipeline.stages, .stage = 0, .parts = pipeline.parts, .turns = pipeline.turns};
  plan.shape.skip = pipeline.skip;
  plan.lists = pipeline::lists_of(pipeline.schedule, plan.shape);
  plan.parts.resize(static_cast<std::size_t>(pipeline.stages));
  plan.orders = orders_of(plan.lists);
  plan.border_bytes = 100'000;
  const std::size_t units = model::layout(options_of(pipeline).model).size();
  const auto all = static_cast<std::size_t>(pipeline::parts_of_model(plan.shape)), layers = 8 / all;
  for (std::size_t m = 0; m < all; ++m) {
    const std::size_t stage = m % plan.parts.size(), slots = pipeline::slots(plan.lists[stage])[m / plan.parts.size()];
    const Range own = {m == 0 ? 0 : 1 + m * layers, m + 1 == all ? units : 1 + (m + 1) * layers};
    plan.parts[stage].push_back({own, slots, slots});
  }
  return plan;
}

class PipelineTrace : public testing::TestWithParam<PipelineCase> {};

TEST_P(PipelineTrace, BalancesAndSendsWhatThePlanCounts) {
  const PipelineCase& pipeline = GetParam();
  const zero::EngineOptions options = options_of(pipeline);
  const PipelinePlan plan = plan_of(pipeline);
  const int ranks = pipeline.stages * pipeline.data_ranks, nodes = 2;
  const Cluster cluster = {nodes, ranks / nodes};
  constexpr std::size_t steps = 2;
  const Recording recording = record(options, plan, cluster, two_levels(), work, steps);
  EXPECT_FALSE(recording.settled);
  std::ostringstream out;
  write_replay_trace(recording, ranks, out);
  const Trace trace(out.str(), ranks * (1 + recording.lanes), recording.lanes);
  const Balance balance = balance_of(trace, cluster.ranks_per_node);
  EXPECT_EQ(balance.sent, balance.received);
  EXPECT_EQ(stuck(trace, Sends::eager), 0U);
  EXPECT_EQ(stuck(trace, Sends::rendezvous), 0U);

  const PipelineStep planned = pipeline_step(options, plan, cluster, two_levels(), work);
  for (int rank = 0; rank < ranks; ++rank) {
    SCOPED_TRACE(testing::Message() << "rank " << rank);
    const Bytes bytes = planned.sent[static_cast<std::size_t>(rank)].total();
    EXPECT_DOUBLE_EQ(static_cast<double>(balance.by_rank.at(rank).intra), bytes.intra * steps);
    EXPECT_DOUBLE_EQ(static_cast<double>(balance.by_rank.at(rank).inter), bytes.inter * steps);
  }
  double computed = 0;  // by one data-parallel rank of each stage, which together compute the model
  for (const auto& actions : recording.actions) {
    for (const RecordedAction& action : actions) computed += action.seconds;
  }
  EXPECT_NEAR(computed, steps * work.total_s(), 1e-9);
}

using pipeline::Schedule;
INSTANTIATE_TEST_SUITE_P(
    Schedules, PipelineTrace,
    testing::Values(PipelineCase{}, PipelineCase{.stages = 4, .turns = 2}, PipelineCase{.stages = 8, .turns = 16},
                    PipelineCase{.turns = 1}, PipelineCase{.data_ranks = 2, .zero_stage = 1},
                    PipelineCase{.stages = 4, .data_ranks = 2, .turns = 6, .zero_stage = 1},
                    PipelineCase{.stages = 4, .data_ranks = 2, .turns = 6, .overlap = false},
                    PipelineCase{.data_ranks = 3, .zero_stage = 1, .overlap = false},
                    PipelineCase{.schedule = Schedule::gpipe, .stages = 4, .turns = 8}, PipelineCase{.skip = true},
                    PipelineCase{.stages = 4, .data_ranks = 2, .turns = 6, .zero_stage = 1, .skip = true},
                    PipelineCase{.schedule = Schedule::gpipe, .stages = 4, .parts = 2, .turns = 8, .skip = true},
                    PipelineCase{.schedule = Schedule::interleaved, .stages = 4, .parts = 2, .turns = 8, .skip = true},
                    PipelineCase{.schedule = Schedule::gpipe, .parts = 2, .data_ranks = 4, .turns = 3},
                    PipelineCase{.schedule = Schedule::interleaved, .stages = 4, .parts = 2, .turns = 8},
                    PipelineCase{.schedule = Schedule::interleaved, .parts = 4, .data_ranks = 2, .zero_stage = 1},
                    PipelineCase{.data_ranks = 2, .zero_stage = 2}, PipelineCase{.data_ranks = 2, .zero_stage = 3},
                    PipelineCase{.stages = 4, .data_ranks = 4, .turns = 6, .zero_stage = 3, .skip = true},
                    PipelineCase{.stages = 4, .data_ranks = 2, .turns = 6, .zero_stage = 3, .overlap = false},
                    PipelineCase{.schedule = Schedule::gpipe, .parts = 2, .data_ranks = 3, .turns = 3, .zero_stage = 2},
                    PipelineCase{.schedule = Schedule::interleaved, .parts = 4, .data_ranks = 2, .zero_stage = 3}));

/// The actions of a rank. "start 1", "wait 1": of its lane 1.
std::string words_of(const Trace& trace, int rank) {
  const int own = rank * (1 + trace.lanes);
  std::string words;
  for (const Line& line : trace.processes[static_cast<std::size_t>(own)]) {
    words += words.empty() ? "" : ", ";
    if (line.what == "send" || (line.what == "recv" && line.tag == lane_tag)) {
      words += (line.what == "send" ? "start " : "wait ") + std::to_string(line.partner - own);
    } else {
      words += line.what;
    }
  }
  return words;
}

/// Two stages, two turns, 1f1b: F0 F1 B0 B1 on the first stage, F0 B0 F1 B1 on the second one. Then losses and norm, which
/// the ranks exchange themselves, and the update. Lanes 1 and 2 send activations and gradients, lanes 3 and 4 receive them.
TEST(PipelineRecording, FollowsTheOrderOfTheRunner) {
  const PipelineCase pipeline = {.turns = 2};
  zero::EngineOptions options = options_of(pipeline);
  options.model.tied = false;
  PipelinePlan plan = plan_of(pipeline);
  plan.parts.back().back().units.end = model::layout(options.model).size();
  const Recording recording = record(options, plan, {2, 1}, two_levels(), work, 1);
  ASSERT_EQ(recording.lanes, 4);
  std::ostringstream out;
  write_replay_trace(recording, 2, out);
  const Trace trace(out.str(), 2 * 5, 4);
  const std::string numbers = ", isend, recv, waitall, isend, recv, waitall, compute";
  EXPECT_EQ(words_of(trace, 0),
            "init, start 4, start 4, compute, start 1, compute, start 1, wait 4, compute, wait 4, compute" + numbers +
                ", wait 1, wait 1, finalize");
  EXPECT_EQ(words_of(trace, 1), "init, start 3, start 3, wait 3, compute, start 2, wait 3, compute, start 2" + numbers +
                                    ", wait 2, wait 2, finalize");
}

TEST(PipelineRecording, OverNcclIsRefused) {
  NetworkModel queued = two_levels();
  queued.queued = true;
  EXPECT_THROW(record(options_of({}), plan_of({}), {2, 1}, queued, work, 1), Error);
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

}  // namespace of_replay_trace_test
}  // namespace shoal::plan
