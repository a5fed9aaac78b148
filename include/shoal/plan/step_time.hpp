// SPDX-License-Identifier: Apache-2.0
// How long a step takes: the collectives that ZeRO makes of the model on these ranks, by the network's model, and how much
// of them can hide behind the arithmetic.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/plan/network.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::plan {

/// The same collective over all ranks, several times in a step.
struct Transfer {
  enum class Kind { reduce_scatter, all_gather };
  /// What else a rank does meanwhile, if it may.
  enum class Behind {
    backward,     ///< of the last micro-batch of a round
    micro_batch,  ///< forward and backward of any
    forward,      ///< of the next step's first micro-batch
    nothing
  };
  Kind kind;
  Behind behind;
  std::vector<std::size_t> blocks;  ///< bytes of each rank's
  std::size_t times = 1;
};

/// All large collectives of one step. What is left out: the losses' and the norm's, some 8 bytes a micro-batch and a
/// subtree.
std::vector<Transfer> transfers(const zero::EngineOptions& options, int ranks);

/// Bytes that a rank sends in a step's transfers, by their kind.
struct Sent {
  comm::Traffic reduced, gathered;
  comm::Traffic total() const { return {reduced.intra + gathered.intra, reduced.inter + gathered.inter}; }
};

struct StepTime {
  double compute_s = 0;        ///< as given
  double communication_s = 0;  ///< of all transfers, one after another
  double exposed_s = 0;        ///< what of it nothing hides
  Sent sent;                   ///< by the rank that sends most
  double total_s() const { return compute_s + exposed_s; }
};

/// compute_s: of a step's arithmetic on one rank. Of a micro-batch's time a third is forward; where
/// options.gradients.overlap is off nothing is hidden.
StepTime step_time(const zero::EngineOptions& options, const Cluster& cluster, const NetworkModel& network,
                   double compute_s);

/// A step's arithmetic on one rank at this rate of matrix products, which are all of it here; with activation
/// checkpointing forward counts twice.
double compute_seconds(const zero::EngineOptions& options, int ranks, double gflops);

}  // namespace shoal::plan
