// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include <map>
#include <string>
#include <vector>

#include "checkpoint_state.hpp"
#include "collective.hpp"
#include "interrupt.hpp"
#include "run_record.hpp"
#include "run_trace.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/timing.hpp"
#include "shoal/io/checkpoint.hpp"
#include "verdict.hpp"
#include "weights.hpp"

namespace shoal::app {

namespace {

/// The reason for stopping early. Collective, since a signal may have reached any rank.
std::string why_stopped(comm::Communicator& ranks) {
  std::int64_t signal = Interrupts::first();
  ranks.all_reduce(Span<std::int64_t>(&signal, 1), comm::Reduce::max).wait();
  return signal == 0 ? "train.stop_after" : signal_name(static_cast<int>(signal));
}

}  // namespace

Run::Run(comm::World& world, const Setup& setup, RunFiles& files, Machine& machine, const std::optional<Resumed>& before,
         io::CheckpointDirectory* directory, double peak_gflops)
    : world_(world),
      setup_(setup),
      files_(files),
      options_(setup.options),
      machine_(machine),
      before_(before),
      first_step_(before ? before->state.step : 0),
      lineage_(begin_run(world, setup.options, before)),
      trainer_(setup, world, machine),
      saves_(world, setup, machine, lineage_, directory),
      trace_(open_trace(world, setup, machine, first_step_, peak_gflops)),
      metrics_(world, options_.output.dir, first_step_),
      log_(setup, world, peak_gflops, first_step_) {
  history_.lineage = lineage_;
  if (before) history_.resumed_from = before->file;
  trainer_.restore(first_step_, before ? before->state.numbers : std::map<std::string, double>{});
  const std::string others = directory != nullptr && keeps_checkpoints() ? directory->others(lineage_) : "";
  if (!others.empty()) log_.note(printable(others));
}

bool Run::wants_validation(std::int64_t step, bool last) const {
  return setup_.dataset.validation != nullptr && (last || due(options_.train.eval_every, step));
}

/// Returns true if the last step is saved: the options ask for checkpoints, or the run was resumed from one.
bool Run::keeps_checkpoints() const {
  return options_.checkpoint.every != 0 || !options_.checkpoint.dir.empty() || before_.has_value();
}

bool Run::wants_checkpoint(std::int64_t step, bool last, bool stop) const {
  return stop || due(options_.checkpoint.every, step) || (last && keeps_checkpoints());
}

/// last_known: this is the last step whose report is known, so the parameters are those after it.
void Run::record(const StepReport& report, bool last_known) {
  history_.steps.push_back(report);
  std::optional<double> validation;
  if (last_known && report.broken.empty() && wants_validation(report.step, report.last)) {
    validation = trainer_.evaluate(report.step);
    history_.validation.emplace_back(report.step, *validation);
  }
  metrics_.write(report, static_cast<double>(options_.batch.global * options_.model.block_size), validation);
  check(report);
  log_.step(report);
  if (validation) log_.validation(report.step, *validation);
}

void Run::check(const StepReport& report) {
  if (report.broken.empty() || options_.train.on_nan == config::OnNan::skip) return;
  saves_.finish();  // completes the last good checkpoint
  throw Error(
      Exit::failed, Seen::everywhere,
      text("step ", report.step, ": ", report.broken, "; the run stops (train.on_nan = skip would skip such updates)"));
}

/// Collective. Called at moments when the ranks have synchronized, so that it adds no wait.
void Run::flush_trace(std::int64_t step) {
  if (trace_ == nullptr) return;
  const auto interval = static_cast<std::int64_t>(options_.trace.interval);
  if (step / interval > flushed_ / interval) trace_->flush();
  flushed_ = step;
}

/// Fails if the directories are no longer this run's, or metrics.jsonl was removed. Collective.
void Run::check_files() {
  files_.check();
  on_rank_0(world_.all(), [&] { metrics_.require_there(); });
}

/// Counts what this step sent. Evaluations and checkpoints are not counted.
void Run::add_traffic() {
  for (const auto& [operation, sent] : comm::traffic()) {
    comm::Traffic& sum = history_.traffic[operation];
    sum.intra += sent.intra;
    sum.inter += sent.inter;
  }
}

Exit Run::steps() {
  const auto most = static_cast<std::int64_t>(options_.train.steps);
  const std::int64_t begin = trace::now_ns();
  const auto want_stop = [&] {
    if (files_.lost()) return true;  // check_files() reports the reason
    if (Interrupts::first() != 0) return true;
    return world_.all().rank() == 0 && options_.train.stop_after > 0 &&  // by rank 0's clock alone
           static_cast<double>(trace::now_ns() - begin) * 1e-9 > options_.train.stop_after;
  };
  for (std::int64_t t = first_step_; !trainer_.done(t); ++t) {
    comm::reset_traffic();
    const bool at_boundary = t + 1 == most || wants_validation(t + 1, false) || wants_checkpoint(t + 1, false, false);
    const std::uint64_t waits = device::waits();
    const std::vector<StepReport> known = trainer_.step(t, want_stop, at_boundary);
    history_.device_waits += device::waits() - waits;
    device::read_spans();
    add_traffic();
    if (trace_ != nullptr) mark_memory(machine_.memory);
    if (known.empty()) continue;  // nodes train locally: this step's report is exchanged with a later one's
    for (const StepReport& report : known) record(report, &report == &known.back());
    flush_trace(t + 1);
    saves_.advance();
    const bool last = known.back().last, stop = known.back().stop;
    if (wants_checkpoint(t + 1, last, stop)) {
      const trace::Region region(trace::Level::steps, trace::Kind::phase, "checkpoint");
      check_files();
      files_.enter_checkpoints();
      saves_.save(t + 1, trainer_.numbers());
    }
    if (stop && !last) {
      history_.stopped_by = why_stopped(world_.all());
      return Exit::requeue;
    }
  }
  return Exit::done;
}

Exit Run::close(Exit exit) {
  saves_.finish();
  check_files();
  if (exit == Exit::requeue) {
    log_.note(text("stopped by ", history_.stopped_by, " after step ", history_.steps.back().step, ": checkpoint ",
                   saves_.last()->string(), " complete; resume with --checkpoint.resume=latest"));
  }
  heartbeat::phase("exit");
  if (trace_ != nullptr) {
    device::wait_for_device();  // so that the last update is in the trace
    trace_->flush();
    trace_->close();
  }
  replace_by_mean(machine_, history_.steps.empty() ? first_step_ : history_.steps.back().step);
  if (!options_.output.export_dir.empty() && exit == Exit::done) {
    export_weights(world_, options_.model, machine_.engine, options_.output.export_dir);
    log_.note("weights exported to " + options_.output.export_dir);
  }
  const std::string checksum = io::hexadecimal(io::params_checksum(world_.all(), common_parameters(machine_)));
  const Verdict verdict = judge(setup_, machine_.memory, history_, exit);
  write_summary(world_, setup_, machine_.memory, history_, verdict, checksum);
  print_verdict(world_, setup_, machine_.memory, history_, saves_, verdict);
  return verdict.exit;
}

}  // namespace shoal::app
