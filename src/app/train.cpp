// SPDX-License-Identifier: Apache-2.0
// shoal train: set up, resume, step after step with evaluations and checkpoints between, and the closing summary.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>

#include "collective.hpp"
#include "commands.hpp"
#include "interrupt.hpp"
#include "output.hpp"
#include "pays_off.hpp"
#include "peak.hpp"
#include "report.hpp"
#include "resume.hpp"
#include "run_files.hpp"
#include "run_record.hpp"
#include "saves.hpp"
#include "setup.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/target.hpp"
#include "shoal/io/trace_file.hpp"
#include "shoal/kernels/runtime.hpp"
#include "shoal/plan/notation.hpp"
#include "trainer.hpp"
#include "verdict.hpp"
#include "version.hpp"
#include "weights.hpp"

namespace shoal::app {

namespace {

constexpr std::size_t trace_events = 1U << 18U;  // 12 MiB: what is kept between two writes of the trace

trace::Level trace_level(const std::string& name) {
  return name == "kernels" ? trace::Level::kernels
         : name == "comm"  ? trace::Level::comm
         : name == "steps" ? trace::Level::steps
                           : trace::Level::off;
}

/// Where nothing is in the way any more.
std::filesystem::path free_trace_path(comm::World& world, const config::Options& o, std::int64_t first_step) {
  std::string path;
  on_rank_0(world.all(), [&] {
    const bool resumes = o.checkpoint.resume != "none";
    path = resumes ? next_trace_part(o, first_step) : trace_path(o);
    if (!resumes) io::clear_target("trace.file = ", path, io::own_kind(io::FileKind::trace), o.output.overwrite);
  });
  return broadcast_text(world.all(), path, 0);
}

std::unique_ptr<io::TraceFile> open_trace(comm::World& world, const Setup& setup, const Machine& machine,
                                          std::int64_t first_step) {
  const config::Options& o = setup.options;
  if (o.trace.level == "off") return nullptr;
  io::TraceHeader header;
  header.version = version();
  for (const auto& [name, value] : config::list(o)) header.options[name] = value;
  header.machine["device"] = kernels::device_name();
  header.machine["threads"] = std::to_string(setup.threads);
  for (const auto& [name, value] : library_versions()) header.machine[name] = value;
  for (const auto& unit : machine.engine.units()) {
    header.units.push_back(unit.name);
    header.unit_elements.push_back(unit.elements);
  }
  header.groups = world.group_kinds();
  return std::make_unique<io::TraceFile>(world, free_trace_path(world, o, first_step), header);
}

/// Collective, since a signal may have reached any rank.
std::string why_stopped(comm::Communicator& ranks) {
  std::int64_t signal = Interrupts::first();
  ranks.all_reduce(Span<std::int64_t>(&signal, 1), comm::Reduce::max).wait();
  return signal == 0 ? "train.stop_after" : signal_name(static_cast<int>(signal));
}

void mark_memory(const Memory& memory) {
  trace::counter("memory/resident", current_rss_bytes());
  trace::counter("memory/arenas", memory.taken().total());
}

/// The part of a run between its first and its last step.
class Run {
 public:
  /// `before`: what the run goes on from. directory: on rank 0, the checkpoints that are there.
  Run(comm::World& world, const Setup& setup, RunFiles& files, Machine& machine, const std::optional<Resumed>& before,
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
        trace_(open_trace(world, setup, machine, first_step_)),
        metrics_(world, options_.output.dir, first_step_),
        log_(setup, world, peak_gflops, first_step_) {
    history_.lineage = lineage_;
    if (before) history_.resumed_from = before->file;
    trainer_.restore(first_step_, before ? before->state.numbers : std::map<std::string, double>{});
    const std::string others = directory != nullptr && keeps_checkpoints() ? directory->others(lineage_) : "";
    if (!others.empty()) log_.note(printable(others));
  }

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

bool Run::wants_validation(std::int64_t step, bool last) const {
  return setup_.dataset.validation != nullptr && (last || due(options_.train.eval_every, step));
}

/// Whoever asked for checkpoints, or went on from one, finds one at the end.
bool Run::keeps_checkpoints() const {
  return options_.checkpoint.every != 0 || !options_.checkpoint.dir.empty() || before_.has_value();
}

bool Run::wants_checkpoint(std::int64_t step, bool last, bool stop) const {
  return stop || due(options_.checkpoint.every, step) || (last && keeps_checkpoints());
}

/// last_known: no later step is known yet, so the parameters are those after this one.
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
  if (report.broken.empty() || options_.train.on_nan == "skip") return;
  saves_.finish();  // what was good is kept
  throw Error(
      Exit::failed, Seen::everywhere,
      text("step ", report.step, ": ", report.broken, "; the run stops (train.on_nan = skip would leave such updates out)"));
}

/// When all ranks are here anyway.
void Run::flush_trace(std::int64_t step) {
  if (trace_ == nullptr) return;
  const auto interval = static_cast<std::int64_t>(options_.trace.interval);
  if (step / interval > flushed_ / interval) trace_->flush();
  flushed_ = step;
}

/// Whether the directories are still this run's, and what it wrote is in them. Collective.
void Run::check_files() {
  files_.check();
  on_rank_0(world_.all(), [&] { metrics_.require_there(); });
}

/// Evaluations and checkpoints are not counted: only what steps send.
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
    if (files_.lost()) return true;  // check_files() says why
    if (Interrupts::first() != 0) return true;
    return world_.all().rank() == 0 && options_.train.stop_after > 0 &&  // rank 0's clock alone counts
           static_cast<double>(trace::now_ns() - begin) * 1e-9 > options_.train.stop_after;
  };
  for (std::int64_t t = first_step_; !trainer_.done(t); ++t) {
    comm::reset_traffic();
    const bool border = t + 1 == most || wants_validation(t + 1, false) || wants_checkpoint(t + 1, false, false);
    const std::vector<StepReport> known = trainer_.step(t, want_stop, border);
    add_traffic();
    if (trace_ != nullptr) mark_memory(machine_.memory);
    if (known.empty()) continue;  // nodes that train apart: this step's report comes with a later one's
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
    trace_->flush();
    trace_->close();
  }
  take_average(machine_, history_.steps.empty() ? first_step_ : history_.steps.back().step);
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

Ledger of_the_rank_with_most(comm::World& world, const Ledger& taken) {
  std::array<std::uint64_t, kinds.size()> bytes{};
  for (const Kind kind : kinds) bytes[static_cast<std::size_t>(kind)] = taken[kind];
  world.all().all_reduce(Span<std::uint64_t>(bytes), comm::Reduce::max).wait();
  Ledger most;
  for (const Kind kind : kinds) most[kind] = bytes[static_cast<std::size_t>(kind)];
  return most;
}

/// --dry-run: what was checked, and what the run would take.
void print_plan(comm::World& world, const Setup& setup) {
  if (world.all().rank() != 0) return;
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& part : setup.plan.parts) {
    rows.emplace_back(part.label, text(plan::bytes_text(part.bytes), " (", name_of(part.kind), ")"));
  }
  rows.emplace_back("together", plan::bytes_text(setup.plan.bytes.total()));
  print_table(text("memory of a rank of ", setup.division.ranks), rows);
  std::printf("# dry run: the options, the data and the memory are in order; nothing was trained\n");
}

/// Whether model.init_from is read, unless checkpoint.resume = latest finds a checkpoint.
bool starts_from_weights(const config::Options& o) {
  if (o.model.init_from.empty()) return false;
  if (o.checkpoint.resume == "latest") return io::list_checkpoints(checkpoint_directory(o)).empty();
  return o.checkpoint.resume == "none";
}

Exit train(comm::World& world, config::Invocation& invocation) {
  const int ranks = invocation.ranks > 0 ? invocation.ranks : world.size();
  config::validate(invocation, ranks);
  if (world.all().rank() == 0) {
    for (const std::string& key : invocation.not_built) std::fprintf(stderr, "not built yet: %s\n", key.c_str());
    std::FILE* const log = invocation.print_config ? stderr : stdout;  // a deck that is read back comes alone
    for (const std::string& note : invocation.notes) std::fprintf(log, "# %s\n", note.c_str());
  }
  if (invocation.print_config) {
    if (world.all().rank() == 0) std::fputs(config::print(invocation.options).c_str(), stdout);
    return Exit::done;
  }
  const Setup setup = prepare(world, invocation.options, ranks, Purpose::train);
  if (starts_from_weights(setup.options)) check_weights(setup.options.model);
  if (invocation.dry_run) {
    on_rank_0(world.all(), [&] { require_writable(setup.options); });
    print_plan(world, setup);
    return Exit::done;
  }
  require_input(ranks == world.size(), "--ranks ", ranks, " checks a deck for other ranks than the ", world.size(),
                " that were started: it goes with --dry-run or --print-config");
  const config::Options& o = setup.options;
  RunFiles files(world, o);
  const Interrupts interrupts;  // until the first step is made they wait for its end
  const kernels::Runtime runtime(setup.threads);
  kernels::connect_trace();
  world.all().barrier().wait();
  trace::set_zero();  // on all ranks at one moment, before the first event
  trace::start(trace_level(o.trace.level), trace_events);

  const double peak = measured_peak(world, setup.engine.dtype);
  Machine machine(setup, world);
  const Ledger most_taken = of_the_rank_with_most(world, machine.memory.taken());
  if (world.all().rank() == 0) print_banner(setup, world, most_taken, peak);
  print_pays_off(setup, world, machine, peak);
  heartbeat::phase("load");
  const std::unique_ptr<io::CheckpointDirectory> directory = open_checkpoint_directory(world, o);
  const std::optional<Resumed> before = resume(world, setup, machine, directory.get());
  if (!before) {
    if (o.model.init_from.empty()) {
      machine.engine.initialize(o.train.seed);
    } else {
      import_weights(o.model, machine.engine);
    }
    if (machine.synchroniser) machine.synchroniser->begin();
  }
  Run run(world, setup, files, machine, before, directory.get(), peak);
  world.all().barrier().wait();
  return run.close(run.steps());
}

}  // namespace

Command train_command() {
  return {{.name = "train", .summary = "train a model; writes metrics, a trace and checkpoints"}, train};
}

}  // namespace shoal::app
