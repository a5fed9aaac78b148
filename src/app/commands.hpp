// SPDX-License-Identifier: Apache-2.0
// The program's commands. A new one needs a file of its own, a declaration here, and an entry in main.cpp's commands().
#pragma once

#include "app/support/command.hpp"

namespace shoal::app {

Command train_command();
Command plan_command();
Command bench_command();
Command eval_command();
Command generate_command();
Command tokenize_command();
Command export_command();
Command info_command();
Command jobscript_command();
Command study_command();
Command doctor_command();

}  // namespace shoal::app
