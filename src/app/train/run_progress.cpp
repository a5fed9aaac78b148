// SPDX-License-Identifier: Apache-2.0
#include "app/train/run_progress.hpp"

#include <cmath>

#include "app/support/collective.hpp"
#include "app/support/output_paths.hpp"
#include "shoal/base/error.hpp"

namespace shoal::app {

RunProgress::RunProgress(comm::World& world, const config::Options& options, const std::optional<Resumed>& before,
                         const io::Lineage& lineage, const io::CheckpointDirectory* directory)
    : options_(options),
      progress_(before ? progress_of(before->state.numbers)
                       : Progress{.tokens = 0, .training = {}, .validation = {}, .best = {}}) {
  const std::optional<LossAt> best = kept_best();
  if (!best) return;
  std::uint64_t is_there = 0;
  on_rank_0(world.all(), [&] { is_there = directory->has(lineage, best->step) ? 1 : 0; });
  world.all().broadcast(comm::bytes_of(Span<std::uint64_t>(&is_there, 1)), 0).wait();
  if (is_there != 0) return;
  note_ =
      text("checkpoint.keep_best: the checkpoint of step ", best->step, ", whose validation loss was the lowest, is not in ",
           checkpoint_directory(options).string(), ": the next evaluation counts as the best");
  progress_.best.reset();
}

void RunProgress::count(const StepReport& report) {
  if (progress_.tokens) *progress_.tokens += static_cast<double>(options_.batch.global * options_.model.block_size);
  progress_.training = std::isfinite(report.loss) ? std::optional(report.loss) : std::nullopt;
}

bool RunProgress::evaluated(std::int64_t step, double loss) {
  return progress_.evaluated({step, loss}) && options_.checkpoint.keep_best;
}

}  // namespace shoal::app
