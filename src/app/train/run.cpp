// SPDX-License-Identifier: Apache-2.0
#include "app/train/run.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "app/checkpoint/checkpoint_state.hpp"
#include "app/checkpoint/run_record.hpp"
#include "app/setup/extra_memory.hpp"
#include "app/setup/weights.hpp"
#include "app/support/collective.hpp"
#include "app/support/interrupt.hpp"
#include "app/train/closing.hpp"
#include "app/train/disk_space.hpp"
#include "app/train/run_trace.hpp"
#include "app/train/summary.hpp"
#include "app/train/verdict.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/timing.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::app {

Run::Run(comm::World& world, const ResolvedRun& resolved, RunFiles& files, Assembly& assembly,
         const std::optional<Resumed>& before, io::CheckpointDirectory* directory, StopClock& clock, double peak_gflops)
    : world_(world),
      resolved_(resolved),
      files_(files),
      options_(resolved.options),
      assembly_(assembly),
      before_(before),
      clock_(clock),
      first_step_(before ? before->state.step : 0),
      lineage_(begin_run(world, resolved, before)),
      trainer_(resolved, world, assembly),
      faults_(options_, world.all().rank(), before.has_value()),
      saves_(world, resolved, assembly, lineage_, directory, faults_),
      export_piece_(options_.output.export_dir.empty() ? Span<float>()
                                                       : take_export_piece(assembly.engine, assembly.memory)),
      trace_(open_trace(world, resolved, assembly, first_step_, peak_gflops)),
      metrics_(world, options_.output.dir, first_step_),
      log_(resolved, world, peak_gflops, pace()),
      history_(world.all().rank() == 0),
      progress_(world, options_, before, lineage_, directory) {
  history_.lineage = lineage_;
  if (before) {
    history_.resumed_from = before->file;
    history_.updated_before = has_updates(before->state);
  }
  if (!progress_.note().empty()) log_.note(printable(progress_.note()));
  trainer_.restore(first_step_, before ? before->state.numbers : std::map<std::string, double>{});
  const std::string others =
      directory != nullptr && writes_checkpoints(options_.checkpoint) ? directory->others(lineage_) : "";
  if (!others.empty()) log_.note(printable(others));
}

Pace Run::pace() const {
  const bool evaluates = resolved_.dataset.validation != nullptr;
  return {static_cast<double>(options_.train.steps),
          first_step_,
          {evaluates ? options_.train.eval_every : 0, evaluates},
          {options_.checkpoint.every, options_.checkpoint.last}};
}

bool Run::wants_validation(std::int64_t step, bool last) const {
  return resolved_.dataset.validation != nullptr && (last || due(options_.train.eval_every, step));
}

/// Beside those of evaluations, for checkpoint.keep_best.
bool Run::wants_checkpoint(std::int64_t step, bool last, bool stop) const {
  return stop || due(options_.checkpoint.every, step) || (last && options_.checkpoint.last);
}

/// last_known: no report of a later step is known, so the parameters are those after this step and may be evaluated. A
/// skipped update has left them as they were. Returns true if its checkpoint is to be kept as that of the best evaluation.
bool Run::record(const StepReport& report, bool last_known) {
  history_.steps.add(report);
  std::optional<double> validation;
  bool keeps = false;
  const std::int64_t begin = trace::now_ns();
  if (last_known && is_good(report) && wants_validation(report.step, report.last)) {
    validation = trainer_.evaluate(report.step);
    history_.validation.emplace_back(report.step, *validation);
    keeps = progress_.evaluated(report.step, *validation);
  }
  const double evaluated_s = 1e-9 * static_cast<double>(trace::now_ns() - begin);
  write_line(report, validation);
  check(report);
  log_.step(report);
  if (validation) log_.validation(report.step, *validation, evaluated_s, keeps);
  return keeps;
}

void Run::write_line(const StepReport& report, std::optional<double> validation) {
  metrics_.write(report, static_cast<double>(options_.batch.global * options_.model.block_size), validation);
}

/// Returns true if the run may go on after this step.
bool Run::is_good(const StepReport& report) const {
  if (report.broken.empty()) return true;
  return options_.train.on_nan == config::OnNan::skip && !report.at_least_scale;
}

void Run::check(const StepReport& report) {
  if (is_good(report)) return;
  saves_.finish();  // completes the last good checkpoint
  throw Error(Exit::failed, Seen::everywhere,
              text("step ", report.step, ": ", report.broken,
                   report.at_least_scale ? "" : "; the run stops (train.on_nan = skip would skip such updates)"));
}

/// Collective. Called at moments when the ranks have synchronized, so that it adds no wait.
void Run::flush_trace(std::int64_t step) {
  if (trace_ == nullptr) return;
  if (write_trace_every_ == 0) write_trace_every_ = steps_between_writes(world_, options_.trace, step - first_step_);
  if (step / write_trace_every_ > flushed_ / write_trace_every_) trace_->flush();
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

device::TierTraffic Run::nvme_traffic() const {
  return assembly_.nvme == nullptr ? device::TierTraffic() : assembly_.nvme->traffic();
}

Exit Run::steps() {
  const auto most = static_cast<std::int64_t>(options_.train.steps);
  const auto want_stop = [&] {
    if (files_.lost() || metrics_.failed()) return true;  // check_files() and close() report the reason
    return Interrupts::first() != 0 || clock_.over();
  };
  const int signal = Interrupts::first_of_all(world_.all());
  if (signal != 0 && !trainer_.done(first_step_)) {
    log_.note(text(signal_name(signal),
                   " came before the first step: the run makes one step, so that there is a checkpoint ",
                   "to resume from, and stops"));
  }
  clock_.start();
  for (std::int64_t t = first_step_; !trainer_.done(t); ++t) {
    comm::reset_traffic();
    const bool at_boundary = t + 1 == most || wants_validation(t + 1, false) || wants_checkpoint(t + 1, false, false);
    const std::uint64_t waits = device::waits();
    const device::TierTraffic moved = nvme_traffic();
    faults_.begin_step(static_cast<std::size_t>(t) + 1);
    const std::vector<StepReport> known = trainer_.step(t, want_stop, at_boundary);
    history_.device_waits += device::waits() - waits;
    history_.nvme += nvme_traffic() - moved;
    device::read_spans();
    add_traffic();
    if (trace_ != nullptr) mark_memory(assembly_.memory);
    if (known.empty()) continue;  // nodes train locally: this step's report is exchanged with a later one's
    const bool last = known.back().last, stop = known.back().stop;
    for (const StepReport& report : known) progress_.count(report);
    // A batch system that ends the run soon may not wait for an evaluation.
    const bool at_once = stop && !last && std::all_of(known.begin(), known.end(), [this](const StepReport& report) {
                           return is_good(report);
                         });
    if (at_once) {
      for (const StepReport& report : known) write_line(report, std::nullopt);
      save(t + 1);
      saves_.finish();
    }
    bool is_best = false;
    for (const StepReport& report : known) is_best = record(report, &report == &known.back()) || is_best;
    flush_trace(t + 1);
    saves_.advance();
    // What was saved before the evaluation does not know its result.
    if (is_best || (!at_once && wants_checkpoint(t + 1, last, stop))) save(t + 1);
    clock_.lap({saves_.seconds(), saves_.longest_s(), saves_.under_way()});
    if (stop && !last) {
      stopped();
      return Exit::requeue;
    }
  }
  return Exit::done;
}

/// Writes the checkpoint of the state after this many steps. Collective.
void Run::save(std::int64_t steps) {
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "checkpoint");
  check_files();
  metrics_.sync();
  files_.enter_checkpoints();
  std::map<std::string, double> numbers = trainer_.numbers();
  numbers.merge(progress_.numbers());
  const std::optional<LossAt> best = progress_.kept_best();
  const double waited_s = saves_.seconds();
  saves_.save(steps, numbers, best ? std::optional(best->step) : std::nullopt);
  log_.saved(saves_.seconds() - waited_s);
}

/// Collective, since a signal may have reached any rank.
void Run::stopped() {
  const int signal = Interrupts::first_of_all(world_.all());
  history_.stopped_by = signal == 0 ? "train.stop_after" : signal_name(signal);
  const std::string warning = clock_.too_short();
  if (signal == 0 && !warning.empty()) log_.note("warning: " + warning);
}

Exit Run::close(Exit exit) {
  saves_.finish();
  check_files();
  on_rank_0(world_.all(), [&] { metrics_.require_written(); });
  if (exit == Exit::requeue) {
    log_.note(text("stopped by ", history_.stopped_by, " after step ", history_.steps.last().step, ": checkpoint ",
                   saves_.last()->string(), " complete; resume with --checkpoint.resume=latest"));
  }
  heartbeat::phase("exit");
  if (trace_ != nullptr) {
    device::wait_for_device();  // so that the last update is in the trace
    trace_->flush();
    trace_->close();
  }
  const bool made_none = history_.steps.empty();
  replace_by_mean(world_, assembly_, made_none ? first_step_ : history_.steps.last().step,
                  made_none && before_ ? &*before_ : nullptr);
  if (!options_.output.export_dir.empty() && exit == Exit::done) {
    export_weights(world_, options_.model, assembly_.engine, export_piece_, options_.output.export_dir);
    log_.note("weights exported to " + options_.output.export_dir);
  }
  const std::string checksum = io::hexadecimal(io::params_checksum(world_.all(), common_parameters(assembly_)));
  history_.best = progress_.kept_best();
  const Verdict verdict = judge(resolved_, assembly_.memory, history_, exit);
  write_summary(world_, resolved_, assembly_.memory, history_, metrics_.earlier(), verdict, checksum);
  print_closing(world_, resolved_, assembly_.memory, history_, saves_, verdict);
  return verdict.exit;
}

}  // namespace shoal::app
