// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/network.hpp"

#include <algorithm>
#include <cmath>

namespace shoal::plan {

std::optional<Line> fit(const std::vector<Sample>& samples) {
  const auto n = static_cast<double>(samples.size());
  double x = 0, xx = 0, y = 0, xy = 0;
  for (const auto& [bytes, seconds] : samples) {
    x += bytes;
    xx += bytes * bytes;
    y += seconds;
    xy += bytes * seconds;
  }
  const double determinant = n * xx - x * x;
  if (samples.size() < 2 || !(determinant > 0)) return std::nullopt;
  Line line;
  line.s_per_byte = std::max(0.0, (n * xy - x * y) / determinant);

  const auto by_bytes = [](const Sample& one, const Sample& other) { return one.bytes < other.bytes; };
  const Sample& smallest = *std::min_element(samples.begin(), samples.end(), by_bytes);
  line.latency_s = std::max(0.0, smallest.seconds - line.s_per_byte * smallest.bytes);
  return line;
}

double worst_deviation(const Line& line, const std::vector<Sample>& samples) {
  double worst = 0;
  for (const auto& [bytes, seconds] : samples) worst = std::max(worst, std::abs(line.at(bytes) / seconds - 1));
  return worst;
}

NetworkModel with_link_rate(const NetworkModel& model, double bits_per_s) {
  NetworkModel other = model;
  if (!model.across) other.across = {model.node ? model.node->latency_s : 0, 0, 0};
  other.across->s_per_byte = model.ranks_per_node * 8 / (bits_per_s * useful_share);
  return other;
}

const char* missing_measurement(const NetworkModel& model, const Cluster& cluster) {
  if (cluster.ranks_per_node > 1 && !model.node) return "it was measured with one rank on each node";
  if (cluster.nodes > 1 && !model.across)
    return "it was measured within one node; --link-rate gives the links between nodes";
  return "";
}

}  // namespace shoal::plan
