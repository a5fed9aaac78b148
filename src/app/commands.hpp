// SPDX-License-Identifier: Apache-2.0
// The program's commands: adding one is a file of its own and a line in main.cpp.
#pragma once

#include "shoal/base/error.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"

namespace shoal::app {

struct Command {
  config::CommandSpec spec;
  Exit (*run)(comm::World& world, config::Invocation& invocation);
  /// One process does all: it may be started without a launcher, also where a batch job has many tasks, and the options of
  /// comm are not about its own ranks.
  bool alone = false;
};

Command train_command();
Command plan_command();
Command bench_command();
Command eval_command();
Command generate_command();
Command tokenize_command();
Command export_command();
Command info_command();

}  // namespace shoal::app
