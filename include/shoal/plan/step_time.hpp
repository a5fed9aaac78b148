// SPDX-License-Identifier: Apache-2.0
// How long a step takes and what it sends, for any strategy, by simulating the steps of a period.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "shoal/plan/step_simulation.hpp"
#include "shoal/sync/options.hpp"

namespace shoal::plan {

/// Means over the steps of a period. The bytes do not include the exchanged numbers for losses and norm, about 8 bytes per
/// micro-batch and per subtree of the norm.
struct StepTime {
  double compute_s = 0;        ///< computation, as given by the caller
  double communication_s = 0;  ///< sum over all operations, quantization included, as if none overlapped
  double exposed_s = 0;        ///< part of the communication that computation does not hide
  Sent sent;                   ///< bytes sent by the rank that sends most
  double across_per_node = 0;  ///< bytes that a node sends to other nodes, for the node that sends most
  double total_s() const { return compute_s + exposed_s; }
};

/// Sets time.sent and time.across_per_node from the bytes of each rank of the run.
void set_sent(StepTime& time, const std::vector<Sent>& sent, const Cluster& cluster);

/// sync_group_size: number of consecutive ranks that reduce gradients with each other at every step: all, or those of a node
/// if nodes train locally. options: the engine's options of such a group.
StepTime step_time(const zero::EngineOptions& options, const sync::SyncOptions& sync, int sync_group_size,
                   const Cluster& cluster, const NetworkModel& network, const Arithmetic& arithmetic);

/// The speed of a rank in training while all ranks work. Matrix products do not reach their peak, and the narrower a model
/// is, the more time goes into other kernels; so the speed is measured for several widths.
struct TrainingRates {
  std::map<std::size_t, double> gflops;  ///< by model.n_embd, with the operations counted by model::flops_per_token()
  double update_s = 0;                   ///< seconds per element that a rank updates: norm, clipping, AdamW
  Speedup speedup = {};
};

/// Returns the seconds of a step on one rank. The speed is interpolated in the logarithm of the width, and beyond the
/// measured widths it is that of the nearest. With activation checkpointing all that backward computes again counts, too.
Arithmetic arithmetic(const zero::EngineOptions& options, int sync_group_size, const TrainingRates& rates);

}  // namespace shoal::plan
