// SPDX-License-Identifier: Apache-2.0
// The actions of nodes after each step: a pure function of the options and the step's number, the same on all ranks.
//
//   localsgd   every localsgd_frequency steps all nodes take the mean of their parameters (Stich 2018)
//   sgp        after every step each node sends its parameters to one neighbour and takes the mean of its own and those that
//              it receives from another: stochastic gradient push (Assran et al. 2019). The neighbours' numbers are `hop`
//              higher and lower, hop = 1, 2, 4, ...
//   slowmo     one of these two, and every slowmo_frequency steps an outer update with momentum (Wang et al. 2019)
//   diloco     every slowmo_frequency steps an outer update of the mean, with Nesterov's momentum (Douillard et al. 2023)
//
// With sync.average_overlap a mean is sent while the next steps run, and applied average_delay steps later
// (sync/average.hpp).
//
// While nodes warm up (the first sync.warmup_steps steps) they sum gradients at every step (sync/gradient_sum.hpp) and do
// none of this; all of it counts the steps after the warm-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/sync/options.hpp"

namespace shoal::sync {

/// Actions after one step, in this order.
struct Actions {
  bool average = false;  ///< mean over all nodes; only started, if it is sent during the next steps
  bool push = false;     ///< exchange with two neighbours (sgp)
  bool outer = false;    ///< outer update of the mean over all nodes, or of each node's parameters (averages_outer())
};

/// One thing that nodes do after a step. The first and the last of these are the caller's of the synchroniser, with its
/// engine: the all-gather of parameters reads the masters, and whatever is computed from them must follow.
enum class SyncCall : std::uint8_t {
  wait_for_parameters,
  start_from_masters,  ///< the warm-up ends
  finish_push,         ///< wait for the exchange with neighbours that is in flight, and apply it
  start_mean,          ///< over all nodes
  start_outer_mean,    ///< the same with an outer update of the mean
  apply_mean,          ///< wait for the mean in flight, and apply it
  push,                ///< exchange with two neighbours
  outer_update,        ///< of each node's own parameters
  gather_in_node,      ///< of the masters that every rank of a node keeps whole
  rebuild_parameters,
};
/// What nodes have in flight after a step.
struct InFlight {
  bool mean = false, push = false;
};

class SyncSchedule {
 public:
  /// On one node nothing is averaged or pushed.
  SyncSchedule(const SyncOptions& options, int nodes) : options_(options), nodes_(nodes) {}

  /// Steps are counted from 1. in_warmup(): nodes sum their gradients in this step. ends_warmup(): it is the last such
  /// step, and local training begins after it.
  bool in_warmup(std::size_t step) const { return step <= options_.warmup_steps; }
  bool ends_warmup(std::size_t step) const { return step == options_.warmup_steps; }
  std::size_t warmup_steps() const { return options_.warmup_steps; }
  bool has_pushes() const { return pushes(options_); }

  Actions actions_after(std::size_t step) const;
  /// What follows from the actions, in order. It may be nothing.
  std::vector<SyncCall> calls_after(std::size_t step, const InFlight& in_flight) const;
  /// Returns true if there are outer updates. SlowMo has none with momentum 0 and rate 1, since they would change nothing.
  bool has_outer() const;
  /// Returns true if the outer update is applied to the mean over nodes, so that its state is equal on all of them and can
  /// be sharded over them: in DiLoCo, and in SlowMo with slowmo_memory_efficient. In such a step the base algorithm's own
  /// exchange is skipped.
  bool averages_outer() const;

  /// overlaps(): means are sent while the next steps run. applies_mean(): after this step nodes apply the mean that was
  /// started average_delay steps before.
  bool overlaps() const { return options_.average_overlap && nodes_ > 1; }
  bool applies_mean(std::size_t step) const;
  /// Returns true if a mean over the nodes is started after this step and, without overlap, applied.
  bool averages(std::size_t step) const;
  /// Returns true if all nodes wait for each other after this step.
  bool synchronizes(std::size_t step) const;
  /// Returns true if nodes have different parameters after `steps` steps.
  bool nodes_differ_after(std::size_t steps) const;
  /// Steps between two synchronizations after the warm-up; 0: there are none.
  std::size_t period() const;

  /// Number of exchanges with neighbours before this step.
  std::size_t pushes_before(std::size_t step) const;
  /// Distance of the neighbours' numbers in exchange `exchange`, counted from 0: the directed exponential graph.
  static int hop(std::size_t exchange, int nodes);

 private:
  SyncOptions options_;
  int nodes_;
};

}  // namespace shoal::sync
