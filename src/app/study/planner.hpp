// SPDX-License-Identifier: Apache-2.0
// What a point of a study will take: its micro-batch, its memory, and the step that the plan predicts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "app/plan/plan_ranks.hpp"
#include "app/plan/plan_time.hpp"
#include "app/study/point.hpp"
#include "app/study/request.hpp"
#include "shoal/base/memory.hpp"
#include "shoal/config/options.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/plan/node_memory.hpp"

namespace shoal::app {

/// A strategy, as written in study.strategies, with its options on top of the deck.
struct StudyVariant {
  std::string strategy;
  config::Invocation asked;
};

/// What of a plan is compared with the limit of a rank. Without memory.limit that is the host's memory: of a GPU's nothing
/// is known here.
std::size_t limited_bytes(const Ledger& planned, const config::Options& options, device::DeviceKind kind);

class PointPlanner {
 public:
  /// Both must outlive this object. times: the machine of study.network, if it was given.
  PointPlanner(const StudyRequest& request, const std::optional<TimeModel>& times) : request_(request), times_(times) {}

  /// The point without its curves, repeat and name. global: batch.global; 0: batch.micro times the ranks, so each pipeline
  /// has a micro-batch for each of its stages. bad_input() if the options cannot run on this grid, or do not fit into
  /// memory.
  StudyPoint point(const StudyVariant& variant, const StudyGrid& grid, std::size_t global) const;

 private:
  /// What a rank of a point may take.
  plan::MemoryShare limit(const config::Options& options, const StudyGrid& grid) const;
  void predict_step(StudyPoint& point, const PlanInputs& inputs) const;

  const StudyRequest& request_;
  const std::optional<TimeModel>& times_;
};

}  // namespace shoal::app
