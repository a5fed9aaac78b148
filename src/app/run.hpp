// SPDX-License-Identifier: Apache-2.0
// The steps of a training, with evaluations and checkpoints between them, and what is written at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "output.hpp"
#include "report.hpp"
#include "resume.hpp"
#include "run_files.hpp"
#include "saves.hpp"
#include "setup.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/lineage.hpp"
#include "shoal/io/trace_file.hpp"
#include "trainer.hpp"

namespace shoal::app {

/// The part of a run between its first and its last step.
class Run {
 public:
  /// `before`: what the run goes on from. directory: on rank 0, the checkpoints that are there.
  Run(comm::World& world, const Setup& setup, RunFiles& files, Machine& machine, const std::optional<Resumed>& before,
      io::CheckpointDirectory* directory, double peak_gflops);

  /// Returns why the run ended.
  Exit steps();
  /// Returns what the program returns.
  Exit close(Exit exit);

 private:
  bool due(std::size_t every, std::int64_t step) const { return every != 0 && static_cast<std::size_t>(step) % every == 0; }
  bool keeps_checkpoints() const;
  bool wants_validation(std::int64_t step, bool last) const;
  bool wants_checkpoint(std::int64_t step, bool last, bool stop) const;
  void record(const StepReport& report, bool last_known);
  void check(const StepReport& report);
  void flush_trace(std::int64_t step);
  void check_files();
  void add_traffic();

  comm::World& world_;
  const Setup& setup_;
  RunFiles& files_;
  const config::Options& options_;
  Machine& machine_;
  const std::optional<Resumed>& before_;
  std::int64_t first_step_;
  io::Lineage lineage_;
  std::int64_t flushed_ = 0;  // the step after which the trace was asked about last
  Trainer trainer_;
  Saves saves_;
  std::unique_ptr<io::TraceFile> trace_;
  Metrics metrics_;
  StepLog log_;
  History history_;
};

}  // namespace shoal::app
