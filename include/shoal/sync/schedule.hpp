// SPDX-License-Identifier: Apache-2.0
// What nodes do after which step: a pure function of the options and the step's number, the same on all ranks.
//
//   localsgd   every localsgd_frequency steps all nodes take the mean of their parameters (Stich 2018)
//   sgp        after every step each node sends its parameters to the one `hop` places after it and takes the mean with what
//              comes from the one `hop` before, hop = 1, 2, 4, ...: stochastic gradient push (Assran et al. 2019)
//   slowmo     one of these two, and every slowmo_frequency steps an outer update with momentum (Wang et al. 2019)
//   diloco     every slowmo_frequency steps an outer update of the mean, with Nesterov's momentum (Douillard et al. 2023)
//
// A mean may be sent while the next steps run, and be taken in after so many of them (sync/average.hpp).
//
// While nodes warm up (sync.warmup_steps) they share gradients at every step (sync/gradient_sum.hpp) and do none of this;
// all of it counts the steps after that.
#pragma once

#include <cstddef>

#include "shoal/sync/options.hpp"

namespace shoal::sync {

/// After one step, in this order.
struct Actions {
  bool average = false;  ///< mean over all nodes, begun where it is sent during the next steps
  bool push = false;     ///< exchange with two neighbours
  bool outer = false;    ///< outer update, of the mean over all nodes or of what each node has (averages_outer())
};

class SyncSchedule {
 public:
  /// On one node nothing is averaged or pushed.
  SyncSchedule(const SyncOptions& options, int nodes) : options_(options), nodes_(nodes) {}

  /// Whether nodes still share gradients in this step, counted from 1, and whether that ends with it.
  bool in_warmup(std::size_t step) const { return step <= options_.warmup_steps; }
  bool ends_warmup(std::size_t step) const { return step == options_.warmup_steps; }
  std::size_t warmup_steps() const { return options_.warmup_steps; }

  /// step: counted from 1.
  Actions actions_after(std::size_t step) const;
  /// Whether there is an outer update at all: SlowMo's is off with momentum 0 and rate 1, where it would change nothing.
  bool has_outer() const;
  /// Whether the outer update takes the mean over nodes first, so that its state is the same for all: in diloco, and in
  /// slowmo where that state is shared out. There the base algorithm's exchange of the same step falls away.
  bool averages_outer() const;

  /// Whether nodes send each other means while the next steps run; and whether they take in, after this step, one that
  /// was begun sync.average_delay steps ago.
  bool overlaps() const { return options_.average_overlap && nodes_ > 1; }
  bool applies_mean(std::size_t step) const;
  /// Whether a mean over the nodes is begun after this step, and, without overlap, finished.
  bool averages(std::size_t step) const;
  /// Whether all nodes meet after this step, none going on before the others have come.
  bool synchronizes(std::size_t step) const;
  /// Whether nodes have different parameters after so many steps.
  bool nodes_differ_after(std::size_t steps) const;
  /// Steps between two meetings, once nodes are warm; 0: they never meet.
  std::size_t period() const;

  /// Exchanges with neighbours before this step, and the distance of the neighbours in exchange number `exchange`, from 0:
  /// the directed exponential graph.
  std::size_t pushes_before(std::size_t step) const;
  static int hop(std::size_t exchange, int nodes);

 private:
  SyncOptions options_;
  int nodes_;
};

}  // namespace shoal::sync
