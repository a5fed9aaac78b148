// SPDX-License-Identifier: Apache-2.0
// The program's commands. A new one needs a file of its own, a declaration here, and an entry in main.cpp's commands().
#pragma once

#include "shoal/base/error.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"

namespace shoal::app {

struct Command {
  config::CommandSpec spec;
  Exit (*run)(comm::World& world, config::Invocation& invocation);
  /// The command runs on one process. It may be started without a launcher even in a batch job of many tasks, and the
  /// options of [comm] do not describe its own ranks.
  bool alone = false;
  /// The command divides its ranks among the stages of a pipeline, as pipeline.size says. Without it all are data-parallel.
  bool has_stages = false;
  /// A rank that makes no progress for this time ends the command, if comm.timeout is not shorter. 0: comm.timeout.
  double longest_silence_s = 0;
};

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
