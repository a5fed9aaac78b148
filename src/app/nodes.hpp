// SPDX-License-Identifier: Apache-2.0
// What nodes that train apart tell each other of their steps: nothing in between, everything when they meet.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shoal/comm/world.hpp"
#include "shoal/sync/node_groups.hpp"

namespace shoal::app {

/// What one step was like; the same on all ranks but for the seconds, once the nodes have met.
struct StepReport {
  std::int64_t step = 0;     ///< from 1
  double loss = 0;           ///< mean over the global batch, before the update; before the nodes meet: over this node's part
  double norm = 0;           ///< of the gradient, before clipping; of several nodes: the mean of their norms
  double learning_rate = 0;  ///< of the update, AdaScale's factor included
  double gain = 0;           ///< AdaScale's: the steps of the small batch that this one counts as; 0: no update, or off
  double effective_steps = 0;  ///< AdaScale's: those made so far
  double seconds = 0;
  double loss_scale = 1;  ///< fp16: what the loss was multiplied by (on the first node)
  bool overflow = false;  ///< fp16: the gradients were too large at this scale, and the update was left out (by any node)
  bool updated = true;    ///< whether an update was made of it (by any node)
  std::string broken;     ///< what was not finite for another reason, in words; empty: nothing was
  bool stop = false;      ///< a rank wants the run to end after this step
  bool last = false;      ///< all steps are made
};

/// Collective over all ranks: what the nodes know of these steps becomes what all know. stop: whether this
/// node wants the run to end, for the last one.
void exchange_reports(comm::World& world, const sync::NodeGroups& place, std::vector<StepReport>& reports, bool stop);

/// Numbers that each node has its own of, all together: "node/K/NAME". Collective; all ranks list the same names.
std::map<std::string, double> gather_numbers(comm::World& world, const sync::NodeGroups& place,
                                             const std::map<std::string, double>& own);
/// Those of this node among them; where there are none (another number of nodes wrote them, or one alone) the first node's.
std::map<std::string, double> numbers_of_node(const std::map<std::string, double>& all, const sync::NodeGroups& place);

}  // namespace shoal::app
