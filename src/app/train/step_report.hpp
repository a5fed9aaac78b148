// SPDX-License-Identifier: Apache-2.0
// Reports of steps, which nodes that train locally exchange when they synchronize.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shoal/comm/world.hpp"
#include "shoal/sync/node_groups.hpp"

namespace shoal::app {

/// Results of one step. Equal on all ranks, except for the seconds, once the nodes have exchanged their reports.
struct StepReport {
  std::int64_t step = 0;  ///< from 1
  double loss = 0;  ///< mean over the global batch, before the update; until nodes exchange reports: over this node's part
  double norm = 0;  ///< of the gradient, before clipping; of several nodes the mean of their norms
  double learning_rate = 0;    ///< of the update, including AdaScale's factor
  double gain = 0;             ///< AdaScale: number of small-batch steps that this step counts as; 0: no update, or off
  double effective_steps = 0;  ///< AdaScale: number of small-batch steps so far
  double seconds = 0;
  double loss_scale = 1;        ///< fp16: factor of the loss (on the first node)
  bool overflow = false;        ///< fp16: the gradients overflowed at this scale, so a node skipped the update
  bool updated = true;          ///< a node applied the update
  bool at_least_scale = false;  ///< fp16: they overflowed at the smallest scale on some node, which ends the run
  std::string broken;  ///< what was not finite for another reason, or overflowed at the smallest scale; empty: nothing
  bool stop = false;   ///< a rank wants the run to end after this step
  bool last = false;   ///< all steps are done
};

/// Collective over all ranks: combines the nodes' reports of these steps into reports that all ranks have. stop: a rank of
/// this node wants the run to end; the last report gets it.
void exchange_reports(comm::World& world, const sync::NodeGroups& groups, std::vector<StepReport>& reports, bool stop);

/// Collects the numbers of all nodes under the names "node/K/NAME". Collective; all ranks list the same names.
std::map<std::string, double> gather_numbers(comm::World& world, const sync::NodeGroups& groups,
                                             const std::map<std::string, double>& own);
/// Returns this node's numbers among them. If there are none (they were written by fewer nodes, or by one), the first
/// node's.
std::map<std::string, double> numbers_of_node(const std::map<std::string, double>& all, const sync::NodeGroups& groups);

}  // namespace shoal::app
