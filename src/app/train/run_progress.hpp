// SPDX-License-Identifier: Apache-2.0
// What a run's checkpoints say of its progress, and which of them checkpoint.keep_best keeps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "app/checkpoint/progress.hpp"
#include "app/checkpoint/resume.hpp"
#include "app/train/step_report.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"
#include "shoal/io/lineage.hpp"

namespace shoal::app {

class RunProgress {
 public:
  /// Collective. Goes on with what the checkpoint says from which the run is resumed (before). Its best evaluation counts
  /// only if the checkpoint of that step is in the directory, which rank 0 knows: it may lie elsewhere, or have been deleted
  /// for its age by a run that did not keep the best.
  RunProgress(comm::World& world, const config::Options& options, const std::optional<Resumed>& before,
              const io::Lineage& lineage, const io::CheckpointDirectory* directory);

  /// A line for the log if an earlier best evaluation does not count; otherwise empty.
  const std::string& note() const { return note_; }
  void count(const StepReport& report);
  /// Returns true if the state that was evaluated is to be saved, and kept as the best.
  bool evaluated(std::int64_t step, double loss);
  /// The evaluation whose checkpoint is kept; nothing without checkpoint.keep_best.
  std::optional<LossAt> kept_best() const { return options_.checkpoint.keep_best ? progress_.best : std::nullopt; }
  /// For the next checkpoint.
  std::map<std::string, double> numbers() const { return numbers_of(progress_); }

 private:
  const config::Options& options_;
  Progress progress_;
  std::string note_;
};

}  // namespace shoal::app
