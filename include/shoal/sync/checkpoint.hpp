// SPDX-License-Identifier: Apache-2.0
// The states of nodes that train locally in a checkpoint: Synchroniser::state() lists them, Synchroniser::restore()
// continues from them. Tensors in addition to parameters and moments (NAME: the parameter's):
//
//   /outer/parameters/NAME, /outer/momentum/NAME  the outer update's
//   /common/NAME                                  the parameters that nodes had in common after the last mean, if means are
//                                                 sent as differences from them (sync.average_dtype = bf16, int8)
//   /average/lost/NAME                            residuals of quantized means (int8)
//   /average/sent/NAME, /average/mean/NAME        a mean in flight: this node's parameters when it sent them; the mean,
//                                                 unless /common is it
//   /push/sent/NAME, /push/received/NAME          an exchange with neighbours in flight (sync.sgp_overlap)
//
// Numbers: sync/nodes, how many nodes wrote the checkpoint; sync/outer, sync/common, sync/lost, sync/mean, sync/push: 1 if
// it has these tensors, otherwise 0.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shoal/base/state.hpp"

namespace shoal::sync {

/// The state that is written to a checkpoint.
struct SyncState {
  std::vector<NamedSlice> common;         ///< equal on all nodes: every element is listed by one rank of all
  std::vector<NamedSlice> own;            ///< each node has its own: every element is listed by one rank of the node
  std::map<std::string, double> numbers;  ///< none while nodes warm up: their checkpoint is that of sync.kind = every_step
};

/// The information about a checkpoint that is read before its tensors.
struct SyncCheckpoint {
  std::string name;  ///< for messages
  std::size_t steps = 0;
  bool same_kind = false;  ///< it was written with this run's sync.kind
  std::map<std::string, double> numbers;
};

/// Fills slices from a checkpoint. If it has tensors of single nodes, a node reads its own; or, if another number of nodes
/// wrote it, the mean over those nodes.
using ReadSlices = std::function<void(const std::vector<NamedSlice>&)>;

/// Number of nodes that trained locally in the run that wrote a checkpoint with these numbers; 0 if its ranks reduced
/// gradients at every step.
int saved_nodes(const std::map<std::string, double>& numbers);

}  // namespace shoal::sync
