// SPDX-License-Identifier: Apache-2.0
// Compares the lists with those that torch.distributed.pipelining (torch 2.15.0) executes (oracles/pipe/schedules.json).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "lists.hpp"
#include "shoal/base/error.hpp"
#include "support/shared_data.hpp"

namespace shoal::pipeline {
namespace of_schedule_oracle_test {

using Json = nlohmann::json;

class Torch : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path oracle = shoal::test::shared_data("oracles/pipe/schedules.json");
    SHOAL_NEED(oracle);
    std::ifstream file(oracle);
    cases_ = Json::parse(file).at("cases");
    ASSERT_GT(cases_.size(), 100U);
  }
  Json cases_;
};

struct Peer {
  Schedule schedule;
  bool descends;  // goes backward through a part's turns in descending order
};
const std::map<std::string, Peer> peers = {{"GPipe", {Schedule::gpipe, false}},
                                           {"LoopedBFS", {Schedule::gpipe, true}},
                                           {"1F1B", {Schedule::one_f_one_b, false}},
                                           {"Interleaved1F1B", {Schedule::interleaved, false}}};

/// As in the file: "F2.0" is the forward pass of part 2 of the model for turn 0.
std::string written(const std::vector<Action>& list, const ScheduleShape& shape, bool descends) {
  std::string all;
  for (const Action& action : list) {
    const bool is_forward = action.kind == Action::Kind::forward;
    const std::size_t turn = descends && !is_forward ? shape.turns - 1 - action.turn : action.turn;
    all += text(all.empty() ? "" : " ", is_forward ? 'F' : 'B', part_of_model(shape, action.part), '.', turn);
  }
  return all;
}

TEST_F(Torch, ExecutesTheSameLists) {
  std::map<std::string, int> compared;
  for (const Json& row : cases_) {
    if (row.contains("refused")) continue;
    const Peer peer = peers.at(row.at("schedule"));
    ScheduleShape shape{row.at("ranks"), 0, row.at("parts_per_rank"), row.at("micro_batches")};
    if (row_of(peer.schedule).whole_groups && shape.turns % static_cast<std::size_t>(shape.stages) != 0) continue;
    for (; shape.stage < shape.stages; ++shape.stage) {
      const auto stage = static_cast<std::size_t>(shape.stage);
      const std::vector<Action> list = actions_of(peer.schedule, shape);
      const std::string name = text(row.at("schedule"), " stage ", stage, " of ", shape.stages, ", ", shape.turns, " turns");
      ASSERT_EQ(written(list, shape, peer.descends), row.at("actions").at(stage)) << name;
      ASSERT_EQ(slots(list), row.at("slots").at(stage).get<std::vector<std::size_t>>()) << name;
    }
    ASSERT_EQ(test::span(lists_of(peer.schedule, shape), shape, 2), row.at("span").get<double>()) << row;
    ++compared[row.at("schedule")];
  }
  for (const auto& [name, peer] : peers) EXPECT_GE(compared[name], 30) << name;
}

}  // namespace of_schedule_oracle_test
}  // namespace shoal::pipeline
