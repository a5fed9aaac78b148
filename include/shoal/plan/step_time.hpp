// SPDX-License-Identifier: Apache-2.0
// How long a step takes and what it sends, under any strategy: a simulation of the steps of a period.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "shoal/plan/step_simulation.hpp"
#include "shoal/sync/options.hpp"

namespace shoal::plan {

/// Means over the steps of a period. What is left out: the losses' and the norm's numbers, some 8 bytes a micro-batch and a
/// subtree.
struct StepTime {
  double compute_s = 0;        ///< as given
  double communication_s = 0;  ///< of all operations, one after another, and of what quantization takes
  double exposed_s = 0;        ///< what of it nothing hides
  Sent sent;                   ///< by the rank that sends most
  double across_per_node = 0;  ///< bytes that a node sends to others: of the node that sends most
  double total_s() const { return compute_s + exposed_s; }
};

/// sync_group_size: neighbouring ranks that share gradients at every step: all, or with sync.kind a node's (options are
/// theirs).
StepTime step_time(const zero::EngineOptions& options, const sync::SyncOptions& sync, int sync_group_size,
                   const Cluster& cluster, const NetworkModel& network, const Arithmetic& arithmetic);

/// What a rank reaches in training while all of them work: products are slower than their peak, and more of the time goes
/// into what is none, the narrower a model is.
struct TrainingRates {
  std::map<std::size_t, double> gflops;  ///< by model.n_embd, counted as model::flops_per_token() does
  double update_s = 0;                   ///< an element that a rank updates: norm, clipping, AdamW
};

/// Of a step on one rank; between widths by their logarithm, beyond them as at the nearest. With activation checkpointing
/// forward counts twice.
Arithmetic arithmetic(const zero::EngineOptions& options, int sync_group_size, const TrainingRates& rates);

}  // namespace shoal::plan
