// SPDX-License-Identifier: Apache-2.0
// The steps of a training run, the evaluations and checkpoints between them, and the output at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "app/checkpoint/resume.hpp"
#include "app/setup/assembly.hpp"
#include "app/setup/resolve.hpp"
#include "app/train/faults.hpp"
#include "app/train/history.hpp"
#include "app/train/metrics.hpp"
#include "app/train/pace.hpp"
#include "app/train/run_files.hpp"
#include "app/train/run_progress.hpp"
#include "app/train/saves.hpp"
#include "app/train/step_log.hpp"
#include "app/train/stop_clock.hpp"
#include "app/train/trainer.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/lineage.hpp"
#include "shoal/io/trace_file.hpp"

namespace shoal::app {

/// The part of a run between its first and its last step.
class Run {
 public:
  /// before: the checkpoint from which the run is resumed. directory: the checkpoints that exist, on rank 0. clock: when the
  /// run has to stop.
  Run(comm::World& world, const ResolvedRun& resolved, RunFiles& files, Assembly& assembly,
      const std::optional<Resumed>& before, io::CheckpointDirectory* directory, StopClock& clock, double peak_gflops);

  /// Runs the steps, at least one: jobs that are stopped and requeued again and again must come to an end. Returns why they
  /// ended.
  Exit steps();
  /// Writes the output at the end. Returns the program's exit code.
  Exit close(Exit exit);

 private:
  bool due(std::size_t every, std::int64_t step) const { return every != 0 && static_cast<std::size_t>(step) % every == 0; }
  Pace pace() const;
  bool wants_validation(std::int64_t step, bool last) const;
  bool wants_checkpoint(std::int64_t step, bool last, bool stop) const;
  bool record(const StepReport& report, bool last_known);
  void write_line(const StepReport& report, std::optional<double> validation);
  bool is_good(const StepReport& report) const;
  void check(const StepReport& report);
  void flush_trace(std::int64_t step);
  void check_files();
  void add_traffic();
  device::TierTraffic nvme_traffic() const;
  void save(std::int64_t steps);
  void stopped();

  comm::World& world_;
  const ResolvedRun& resolved_;
  RunFiles& files_;
  const config::Options& options_;
  Assembly& assembly_;
  const std::optional<Resumed>& before_;
  StopClock& clock_;
  std::int64_t first_step_;
  io::Lineage lineage_;
  std::int64_t flushed_ = 0;            // step of the last flush_trace()
  std::int64_t write_trace_every_ = 0;  // steps; 0: not known yet
  Trainer trainer_;
  Faults faults_;
  Saves saves_;
  Span<float> export_piece_;  // if output.export is set
  std::unique_ptr<io::TraceFile> trace_;
  Metrics metrics_;
  StepLog log_;
  History history_;
  RunProgress progress_;
};

}  // namespace shoal::app
