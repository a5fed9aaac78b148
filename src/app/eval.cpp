// SPDX-License-Identifier: Apache-2.0
// shoal eval: the mean loss of a checkpoint on the validation split.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/checkpoint/from_checkpoint.hpp"
#include "app/setup/evaluate.hpp"
#include "app/support/command.hpp"
#include "app/support/text_table.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::app {

namespace {

Exit eval(comm::World& world, config::Invocation& invocation) {
  const LoadedModel loaded(world, invocation, Purpose::evaluate);
  const config::Options& o = loaded.resolved().options;
  require_input(loaded.resolved().dataset.validation != nullptr, "data.source = ", o.data.source,
                " has no validation split; set data.val_fraction or data.val_source");
  heartbeat::phase("evaluate");
  const data::Samples& samples = *loaded.resolved().dataset.validation;
  const std::size_t most = o.train.eval_batches * o.batch.global;
  const double loss = evaluate(world, loaded.engine(), loaded.runner(), samples, o.batch.micro, o.model.block_size, most);
  if (world.all().rank() == 0) {
    std::printf("# %s, step %lld, on %s\n", printable(loaded.file().string()).c_str(), static_cast<long long>(loaded.step()),
                counted(world.size(), "rank").c_str());
    std::printf("# %s\n", printable(loaded.resolved().dataset.description).c_str());
    std::printf("validation loss %.6f  perplexity %.4f  samples %zu\n", loss, std::exp(loss),
                most == 0 ? samples.count() : std::min(most, samples.count()));
  }
  return Exit::done;
}

}  // namespace

Command eval_command() {
  return {{.name = "eval",
           .summary = "mean loss of a checkpoint, or of a run's newest one, on the validation split",
           .arguments = {"CHECKPOINT", "[DECK]"},
           .checks = false},
          eval};
}

}  // namespace shoal::app
