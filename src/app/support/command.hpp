// SPDX-License-Identifier: Apache-2.0
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
  /// One process of a job may run the command by itself, without a launcher, since its result does not depend on the number
  /// of ranks. It still communicates, unlike a command that runs alone.
  bool one_may_run = false;
  /// A rank that makes no progress for this time ends the command, if comm.timeout is not shorter. 0: comm.timeout.
  double longest_silence_s = 0;
};

}  // namespace shoal::app
