// SPDX-License-Identifier: Apache-2.0
// A deck's options for numbers of ranks that it was not written for.
#pragma once

#include "shoal/config/options.hpp"

namespace shoal::app {

/// Checked for `ranks`. A batch.global that these ranks cannot share out gives way to batch.micro x ranks, a
/// comm.ranks_per_node or sync.nprocs_per_node that does not divide them to one node, and such a zero.hpz_size to none.
struct Resolved {
  config::Invocation run;
  bool batch_gave_way = false;
};

Resolved resolved(config::Invocation asked, int ranks);

}  // namespace shoal::app
