// SPDX-License-Identifier: Apache-2.0
// The text of the scripts in jobscripts/, which are part of the program.
#pragma once

namespace shoal::app {

extern const char* const slurm_script;
extern const char* const pbs_script;

}  // namespace shoal::app
