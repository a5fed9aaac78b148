// SPDX-License-Identifier: Apache-2.0
// How the layers of a run are divided among the stages of its pipelines, and what each stage computes in which order. A run
// without pipelines has one stage.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/config/options.hpp"
#include "shoal/model/part.hpp"
#include "shoal/pipeline/balance.hpp"
#include "shoal/pipeline/border.hpp"
#include "shoal/pipeline/runner.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

struct StagePlan {
  pipeline::ScheduleShape shape;                ///< of one stage
  pipeline::Lists lists;                        ///< of all stages
  std::vector<std::vector<model::Part>> parts;  ///< by stage; a single stage has none: it computes the model as a whole
  std::vector<zero::StepOrder> orders;          ///< by stage: the passes of a training step; none if `parts` has none
};

/// Gives the engine of a stage its parts and the order of its passes.
zero::EngineOptions with_parts(zero::EngineOptions engine, const StagePlan& stages, std::size_t stage);
inline zero::EngineOptions with_parts(const zero::EngineOptions& engine, const StagePlan& stages) {
  return with_parts(engine, stages, static_cast<std::size_t>(stages.shape.stage));
}

/// options: resolved. turns: micro-batches of a pipeline in a step. training: false for evaluations alone.
StagePlan stage_plan(const config::Options& options, int stage, std::size_t turns, bool training);

/// Returns true if a turn keeps all activations until its backward pass (pipeline.checkpoint).
bool keeps_activations(const config::Options& options, std::size_t turn, std::size_t turns);

/// A border of a stage, as its model takes it.
inline model::Flow flow_of(const pipeline::Borders& borders) {
  return {borders.in.data(), borders.out.data(), borders.skip_in.data(), borders.skip_out.data()};
}

/// Bytes of a border of the largest micro-batch.
std::size_t border_bytes(const config::Options& options, zero::Engine& engine);

/// The number of layers of each part of the model, as pipeline.balance says; auto: the least largest cost of a part.
pipeline::Balance balance_of(const config::Options& options);
/// That of auto among the cuts whose parts fit; none if there is no such cut.
std::optional<pipeline::Balance> balance_of(const config::Options& options, const pipeline::Fits& fits);

}  // namespace shoal::app
