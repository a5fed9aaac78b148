// SPDX-License-Identifier: Apache-2.0
// Whether the disk has room for a run's checkpoints, before the first step: a run that fails at its last save has lost all.
#pragma once

#include <string>

#include "shoal/config/options.hpp"

namespace shoal::app {

/// Returns true if the options make the run write a checkpoint, even if nothing stops it early.
bool writes_checkpoints(const config::CheckpointOptions& options);

/// For --dry-run, a line: "checkpoints: of 9.4 MiB or more, after the last step, in out/checkpoints; 12 GiB are free".
std::string checkpoint_plan(const config::Options& options);

/// On rank 0: bad_input() if the disk has no room for one checkpoint. What killed saves left there counts as free, since the
/// run removes it first; so do the checkpoints that --output.overwrite removes.
void require_space(const config::Options& options);

}  // namespace shoal::app
