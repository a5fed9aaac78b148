// SPDX-License-Identifier: Apache-2.0
#include "app/study/json.hpp"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "app/study/points.hpp"
#include "app/support/bytes_json.hpp"

namespace shoal::app {

using OrderedJson = nlohmann::ordered_json;

OrderedJson json_of(const std::vector<Scaling>& scalings) {
  OrderedJson names = OrderedJson::array();
  for (const Scaling scaling : scalings) names.push_back(name_of(scaling));
  return names;
}

OrderedJson json_of(const StudyPoint& point) {
  return {{"name", point.name},
          {"strategy", point.strategy},
          {"scalings", json_of(point.scalings)},
          {"nodes", point.grid.nodes},
          {"ranks_per_node", point.grid.ranks_per_node},
          {"ranks", point.grid.ranks()}};
}

OrderedJson predicted_json(const StudyPoint& point) {
  const auto bytes = [&](plan::OperationKind operation) {
    const plan::Bytes& sent = point.step.sent[operation];
    return OrderedJson{{"intra", sent.intra}, {"inter", sent.inter}};
  };
  const auto seconds = [&](double value) { return point.timed ? OrderedJson(value) : OrderedJson(nullptr); };
  return {{"memory_bytes", point.planned.total()},
          {"state_bytes", bytes_by_kind(point.planned)},
          {"sent_bytes_per_step",
           {{"reduce_scatter", bytes(plan::OperationKind::reduce_scatter)},
            {"all_gather", bytes(plan::OperationKind::all_gather)},
            {"send", bytes(plan::OperationKind::send)}}},
          {"across_bytes_per_node", point.step.across_per_node},
          {"step_s", seconds(point.step.total_s())},
          {"compute_s", seconds(point.step.compute_s)},
          {"communication_s", seconds(point.step.communication_s)},
          {"exposed_s", seconds(point.step.exposed_s)}};
}

OrderedJson changed_options(const StudyPoint& point, const std::map<std::string, std::string>& deck) {
  OrderedJson changed = OrderedJson::object();
  for (const auto& [name, value] : identity_of(point.options)) {
    if (deck.at(name) != value) changed[name] = value;
  }
  return changed;
}

OrderedJson measured_json(const OrderedJson& summary, const RunMetrics& metrics, const StudyPoint& point) {
  if (metrics.steps == 0) return nullptr;
  const OrderedJson& step_s = summary.at("settled").at("step_s");
  const auto mean = step_s.at("mean").get<double>(), tokens = static_cast<double>(point.tokens());
  const OrderedJson& taken = summary.at("state_bytes").at("taken");
  std::uint64_t memory = 0;
  for (const auto& [kind, bytes] : taken.items()) memory += bytes.get<std::uint64_t>();
  const auto rss = summary.at("peak_rss_bytes").get<std::vector<std::uint64_t>>();
  return {{"step_s", step_s},
          {"tokens_per_s", tokens / mean},
          {"node_seconds_per_token", point.grid.nodes * mean / tokens},
          {"memory_bytes", memory},
          {"state_bytes", taken},
          {"peak_rss_bytes", rss.empty() ? 0 : *std::max_element(rss.begin(), rss.end())},
          {"sent_bytes_per_step", summary.at("comm_bytes_per_step")},
          {"final_loss", metrics.final_loss ? OrderedJson(*metrics.final_loss) : OrderedJson(nullptr)},
          {"steps", metrics.steps}};
}

}  // namespace shoal::app
