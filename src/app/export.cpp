// SPDX-License-Identifier: Apache-2.0
// shoal export: writes a checkpoint's weights in Hugging Face's format.
#include <cstdio>

#include "app/checkpoint/from_checkpoint.hpp"
#include "app/setup/extra_memory.hpp"
#include "app/setup/weights.hpp"
#include "app/support/collective.hpp"
#include "app/support/command.hpp"
#include "shoal/io/target.hpp"

namespace shoal::app {

namespace {

Exit export_checkpoint(comm::World& world, config::Invocation& invocation) {
  const std::string& directory = invocation.arguments.at(1);
  on_rank_0(world.all(), [&] {
    require_export("", directory, invocation.options.output.overwrite);
    const std::string problem = io::why_not_writable(directory);
    require_input(problem.empty(), directory, ": cannot be written to: ", problem);
  });
  const LoadedModel loaded(world, invocation, Purpose::weights);
  const Span<float> piece = take_export_piece(loaded.engine(), loaded.memory());
  export_weights(world, loaded.resolved().options.model, loaded.engine(), piece, directory);
  if (world.all().rank() == 0) {
    std::printf("%s: weights of step %lld written to %s\n", loaded.file().c_str(), static_cast<long long>(loaded.step()),
                directory.c_str());
  }
  return Exit::done;
}

}  // namespace

Command export_command() {
  return {.spec = {.name = "export",
                   .summary = "write the weights of a checkpoint, or of a run's newest one, as Hugging Face safetensors; "
                              "--output.overwrite replaces an earlier export",
                   .arguments = {"CHECKPOINT", "DIR"},
                   .checks = false},
          .run = export_checkpoint,
          .one_may_run = true};
}

}  // namespace shoal::app
