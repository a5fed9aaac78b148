// SPDX-License-Identifier: Apache-2.0
// From the options of a run to those of its engine.
#pragma once

#include "app/setup/purpose.hpp"
#include "app/setup/rank_layout.hpp"
#include "shoal/config/options.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

/// The squares of gradients that AdaScale needs.
zero::Squares measured_squares(const config::Options& options);

/// The engine options that follow from resolved options, for the ranks that reduce gradients at every step. parts is not
/// set.
zero::EngineOptions engine_options(const config::Options& options, const RankLayout& division, Purpose purpose);
/// Micro-batches of a pipeline, or of a rank without pipelines, in a step.
std::size_t turns_of(const zero::EngineOptions& engine, const RankLayout& division);

}  // namespace shoal::app
