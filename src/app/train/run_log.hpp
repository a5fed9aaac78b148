// SPDX-License-Identifier: Apache-2.0
// log.txt in output.dir: what the run prints (base/output.hpp).
#pragma once

#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"

namespace shoal::app {

/// Rank 0 keeps what it prints from now on, until start_log().
void keep_for_log(const comm::World& world);

/// Collective; output.dir exists and belongs to this run. Creates the log, or goes on with the one of an earlier part of the
/// run, or of a run that did not begin. From now on all ranks print into it. A file of this name that is no log of shoal is
/// left as it is (`... | tee out/log.txt`); then, and if it cannot be written, the run goes on without, and says so.
void start_log(comm::World& world, const config::Options& options);

/// On rank 0: removes the log of a run that is overwritten, if it can.
void remove_log(const config::Options& options);

}  // namespace shoal::app
