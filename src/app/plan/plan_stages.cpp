// SPDX-License-Identifier: Apache-2.0
#include "app/plan/plan_stages.hpp"

#include <nlohmann/json.hpp>

#include "app/plan/plan_ranks.hpp"
#include "app/plan/plan_time.hpp"
#include "app/support/bytes_json.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::app {

namespace {

/// What the rank that sends most in its stage sends in a step. Borders are not counted.
struct SentInStages {
  double gradients = 0, parameters = 0;
  double total() const { return gradients + parameters; }
};

SentInStages sent_in_stages(PlanInputs inputs, const config::Options& options, int zero_stage) {
  plan::NetworkModel network;  // of which the bytes do not depend
  network.node = network.across = plan::Link{};
  inputs.stages.engine.zero.stage = zero_stage;
  if (zero_stage < options.zero.stage) inputs.stages.engine.gradients.quantized.reset();
  const plan::Cluster one_node{1, inputs.division.ranks * inputs.division.axes.model()};
  SentInStages most;
  for (const plan::Sent& sent : pipeline_step(inputs, options, one_node, network, nullptr).sent) {
    const SentInStages rank{sent[plan::OperationKind::reduce_scatter].total(),
                            sent[plan::OperationKind::all_gather].total()};
    if (rank.total() > most.total()) most = rank;
  }
  return most;
}

}  // namespace

std::string cost_of_turns(const PlanInputs& inputs, const config::Options& options) {
  const zero::Stage& stage = zero::stage_of(options.zero);
  if (options.pipeline.size == 1 || inputs.division.ranks == 1 || !stage.shards_gradients) return {};
  const std::size_t turns = inputs.stages.stages.shape.turns;
  SentInStages own, once;
  try {
    own = sent_in_stages(inputs, options, options.zero.stage);
    once = sent_in_stages(inputs, options, 1);
  } catch (const Error& error) {  // a step of very many turns and ranks is not counted
    if (error.code() != Exit::bad_input) throw;
    return text("zero.stage = ", options.zero.stage, ": what a micro-batch sends is not counted: ", error.what());
  }
  const auto bytes = [](double count) { return bytes_text(static_cast<std::size_t>(count)); };
  const auto of_turn = [&](double count) { return bytes(count / static_cast<double>(turns)); };
  std::string each = of_turn(own.gradients) + " of gradients";
  if (stage.shards_parameters) each += " and " + of_turn(own.parameters) + " of parameters";
  return text("zero.stage = ", options.zero.stage, ": a rank sends up to ", each, " for each of its ", turns,
              " micro-batches; with zero.stage = 1, ", bytes(once.total()), " in a whole step");
}

nlohmann::ordered_json json_of(const std::vector<StageRow>& rows) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const StageRow& row : rows) {
    nlohmann::ordered_json units = nlohmann::ordered_json::array();
    for (const Range& part : row.units) units.push_back({part.begin, part.end});
    stages.push_back({{"units", units},
                      {"largest", row.largest},
                      {"state_bytes", bytes_by_kind(row.bytes)},
                      {"total_bytes", row.bytes.total()}});
  }
  return stages;
}

}  // namespace shoal::app
