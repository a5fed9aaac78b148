// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <utility>

#include "device_start.hpp"
#include "faults.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/kernels/peak.hpp"
#include "shoal/kernels/runtime.hpp"
#include "shoal/plan/notation.hpp"
#include "version.hpp"

namespace shoal::app {

namespace {

template <typename... Args>
std::string print_to_string(const char* format, Args... args) {
  char buffer[256];
  const int length = std::snprintf(buffer, sizeof buffer, format, args...);
  return {buffer, static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(sizeof buffer) - 1))};
}

bool output_redraws() {
  const char* const asked = std::getenv("SHOAL_PROGRESS");
  if (asked == nullptr || std::string_view(asked) == "auto") return isatty(STDOUT_FILENO) == 1;
  require_input(std::string_view(asked) == "redraw" || std::string_view(asked) == "plain", "SHOAL_PROGRESS = ", asked,
                " is unknown; allowed: auto, plain, redraw");
  return std::string_view(asked) == "redraw";
}

/// "2^16"; a scale that is no power of two as a number.
std::string scale_text(double scale) {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5 ? text("2^", exponent - 1) : text(scale);
}

std::size_t parameter_count(const std::vector<model::UnitLayout>& units) {
  std::size_t count = 0;
  for (const auto& unit : units) count += unit.parameter_count();
  return count;
}

std::string grouped(std::size_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), " ");
  return digits;
}

/// Bytes by kind: planned and used. Of the kinds that have many uses, also the planned bytes of each.
std::vector<std::pair<std::string, std::string>> memory_rows(const plan::MemoryPlan& plan, const Ledger& used) {
  const auto both = [](std::size_t planned, std::size_t in_use) {
    return print_to_string("%8s  %8s", plan::bytes_text(planned).c_str(), plan::bytes_text(in_use).c_str());
  };
  std::vector<std::pair<std::string, std::string>> rows;
  rows.reserve(kinds.size() + plan.parts.size() + 1);
  for (const Kind kind : kinds) {
    rows.emplace_back(name_of(kind), both(plan.bytes[kind], used[kind]));
    if (kind != Kind::buffers && kind != Kind::staging) continue;
    for (const Memory::Entry& part : plan.parts) {
      if (part.kind != kind || part.bytes == 0) continue;
      rows.emplace_back("  " + part.label, print_to_string("%8s", plan::bytes_text(part.bytes).c_str()));
    }
  }
  rows.emplace_back("total", both(plan.bytes.total(), used.total()));
  return rows;
}

}  // namespace

std::string fixed(double value, int digits) { return print_to_string("%.*f", digits, value); }

std::string human_time(double seconds) {
  const auto whole = std::lround(seconds);
  if (whole >= 3600) return print_to_string("%ld h %02ld min", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return print_to_string("%ld min %02ld s", whole / 60, whole % 60);
  return print_to_string("%.3g s", seconds);
}

void print_table(const std::string& title, const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, name.size());
  std::printf("# %s\n", printable(title).c_str());
  for (const auto& [name, value] : rows) {
    std::printf("#   %-*s  %s\n", static_cast<int>(width), printable(name).c_str(), printable(value, "\n").c_str());
  }
}

void print_banner(const Setup& setup, comm::World& world, const std::string& binding, const Ledger& most_taken,
                  double peak_gflops) {
  const config::Options& o = setup.options;
  std::string libraries;
  for (const auto& [name, version] : library_versions()) {
    libraries.append(libraries.empty() ? "" : ", ").append(name).append(" ").append(version);
  }
  std::vector<std::pair<std::string, std::string>> run = {
      {"ranks",
       text(world.size(), " on ", comm::describe(world.topology()), ", ", counted(setup.threads, "thread"), " each")},
      {"cores", binding},
      {"device", text(kernels::device_name(), "; at most ", fixed(peak_gflops, 0), " GFLOP/s per rank (",
                      kernels::origin_of_peak(), ", ", name_of(o.train.dtype), ")")},
      {"libraries", libraries},
      {"model", text(name_of(o.model.kind), ", ", grouped(parameter_count(model::layout(o.model))), " parameters, ",
                     name_of(o.train.dtype))},
      {"data", setup.dataset.description},
      {"batch", text(o.batch.global, " sequences of ", o.model.block_size, " tokens per step = micro-batch of ",
                     o.batch.micro, " x ", counted(setup.division.ranks, "rank"), " x ",
                     counted(setup.engine.micro_batches / static_cast<std::size_t>(setup.division.sync_group_size),
                             "accumulation step"))},
  };
  for (auto& row : device_rows(world)) run.push_back(std::move(row));
  run.emplace_back("schedule", optim::describe(o.schedule));
  if (world.size() > 1) {
    const bool native = o.comm.collectives == comm::Collectives::native;
    run.emplace_back("collectives",
                     native ? "the MPI library's own" : "reproducible tree, " + comm::describe_tree(world.data_topology()));
  }
  if (setup.dataset.entropy_rate) {
    run.emplace_back("best possible loss", text(fixed(*setup.dataset.entropy_rate, 4), " (the data's entropy rate)"));
  }
  run.emplace_back("output", o.output.dir);
  if (const std::string faults = describe_faults(o.fault); !faults.empty()) run.emplace_back("FAULTS", faults);
  print_table(text("shoal ", version()), run);

  print_table("memory per rank: planned, used (largest rank)", memory_rows(setup.plan, most_taken));

  std::vector<std::pair<std::string, std::string>> changed;
  const auto defaults = config::list(config::Options{});
  const auto values = config::list(o);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].second != defaults[i].second) changed.push_back(values[i]);
  }
  print_table("options that differ from their defaults", changed);
}

StepLog::StepLog(const Setup& setup, comm::World& world, double peak_gflops, std::int64_t first_step)
    : setup_(setup),
      ranks_(world.size()),
      peak_gflops_(peak_gflops),
      first_step_(first_step),
      prints_(world.all().rank() == 0),
      redraws_(prints_ && output_redraws()) {
  if (prints_) {
    std::printf(
        "# %% peak: %.4g FLOP per token (6 x weights in matrix products + attention to earlier tokens), as a share of\n",
        model::flops_per_token(setup.options.model));
    std::printf("# the cores' measured peak in matrix products, %.0f GFLOP/s x %s\n", peak_gflops,
                counted(ranks_, "rank").c_str());
    std::printf("#   step      loss  grad norm        lr   tokens/s  %% peak        ETA%s\n",
                setup.options.adascale.on ? "    gain   of steps" : "");
    std::fflush(stdout);
  }
}

std::string StepLog::line(const StepReport& report, double seconds) {
  const config::Options& o = setup_.options;
  const double rate = static_cast<double>(o.batch.global * o.model.block_size) / seconds;
  const double reached = rate * model::flops_per_token(o.model) * 1e-9 / ranks_;
  peak_gflops_ = std::max(peak_gflops_, reached);  // if the cores' clock was lower when the peak was measured
  const double at = position(report), left = static_cast<double>(o.train.steps) - at;
  const double pace =
      at > begin_ ? seconds_ / (at - begin_) : 0;  // AdaScale: no progress while the first updates are skipped
  const std::string eta = human_time(std::max(0.0, pace * left));
  std::string line =
      print_to_string("%8lld %9.4f %10.4f %9.2e %10.0f %7.1f %10s", static_cast<long long>(report.step), report.loss,
                      report.norm, report.learning_rate, rate, 100 * reached / peak_gflops_, eta.c_str());
  if (o.adascale.on) line += print_to_string(" %7.3f %10.1f", report.gain, report.effective_steps);
  return line;
}

/// Number of steps done, as train.steps counts them.
double StepLog::position(const StepReport& report) const {
  return setup_.options.adascale.on ? report.effective_steps : static_cast<double>(report.step);
}

void StepLog::step(const StepReport& report) {
  if (report.step == first_step_ + 1) begin_ = position(report) - (setup_.options.adascale.on ? report.gain : 1);
  seconds_ += report.seconds;
  since_line_ += report.seconds;
  ++steps_since_line_;
  if (!prints_) return;
  if (report.overflow)
    note(text("step ", report.step, ": fp16 gradients overflowed at loss scale ", scale_text(report.loss_scale),
              "; update skipped"));
  if (!report.broken.empty()) note(text("step ", report.step, ": ", report.broken, "; update skipped"));
  const auto& train = setup_.options.train;
  const auto step = static_cast<std::size_t>(report.step);
  const bool due = step % train.log_every == 0 || report.last || report.step == first_step_ + 1;
  if (due) {
    clear();
    std::printf("%s\n", line(report, since_line_ / static_cast<double>(steps_since_line_)).c_str());
    since_line_ = 0;
    steps_since_line_ = 0;
  } else if (redraws_) {
    std::printf("\r%s", line(report, report.seconds).c_str());
    drawn_ = true;
  }
  std::fflush(stdout);
}

void StepLog::validation(std::int64_t step, double loss) { note(text("step ", step, ": validation loss ", fixed(loss, 4))); }

void StepLog::note(const std::string& line) {
  if (!prints_) return;
  clear();
  std::printf("# %s\n", line.c_str());
  std::fflush(stdout);
}

/// Removes the redrawn line, so that another line can be printed in its place.
void StepLog::clear() {
  if (drawn_) std::printf("\r%100s\r", "");
  drawn_ = false;
}

namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

/// The rows about the steps of this run, of which there is at least one.
Rows step_rows(const Setup& setup, const History& history, const Verdict& verdict) {
  const config::Options& o = setup.options;
  const StepReport &first = history.steps.front(), &last = history.steps.back();
  Rows rows = {{"ended", text(verdict.stopped_early ? "stopped by " + history.stopped_by + " " : "", "after ",
                              position_text(o, history))}};
  std::string loss;
  if (!history.validation.empty()) loss = text("validation ", fixed(history.validation.back().second, 4), "; ");
  loss +=
      text("training ", fixed(first.loss, 4), " at step ", first.step, ", ", fixed(last.loss, 4), " at step ", last.step);
  if (setup.dataset.entropy_rate) loss += text("; best possible ", fixed(*setup.dataset.entropy_rate, 4));
  rows.emplace_back("loss", loss);
  std::vector<double> seconds;
  for (const StepReport& report : history.steps) seconds.push_back(report.seconds);
  const double tokens = static_cast<double>(o.batch.global * o.model.block_size);
  rows.emplace_back("speed", text(fixed(tokens / median(seconds), 0), " tokens/s (median step ", human_time(median(seconds)),
                                  "); ", counted(seconds.size(), "step"), " in ",
                                  human_time(std::accumulate(seconds.begin(), seconds.end(), 0.0))));
  const auto overflows = std::count_if(history.steps.begin(), history.steps.end(), [](const auto& r) { return r.overflow; });
  if (overflows > 0) {
    rows.emplace_back("overflows", text(counted(overflows, "update"), " skipped; loss scale ", scale_text(last.loss_scale),
                                        " at step ", last.step));
  }
  const auto broken =
      std::count_if(history.steps.begin(), history.steps.end(), [](const auto& r) { return !r.broken.empty(); });
  if (broken > 0) rows.emplace_back("not finite", text(counted(broken, "update"), " skipped"));
  return rows;
}

}  // namespace

void print_verdict(comm::World& world, const Setup& setup, const Memory& memory, const History& history, const Saves& saves,
                   const Verdict& verdict) {
  if (world.all().rank() != 0) return;
  const config::Options& o = setup.options;
  Rows rows = history.steps.empty() ? Rows{{"ended", "no steps were left to do"}} : step_rows(setup, history, verdict);
  const std::string planned =
      setup.plan.bytes == memory.taken() ? "as planned" : "planned " + plan::bytes_text(setup.plan.bytes.total());
  rows.emplace_back("memory", text("rank 0: ", plan::bytes_text(memory.taken().total()), ", ", planned,
                                   "; whole process at most ", plan::bytes_text(peak_rss_bytes())));
  if (saves.last()) {
    rows.emplace_back("checkpoint",
                      text(saves.last()->string(), ", complete; all of this run: ", plan::bytes_text(saves.bytes()),
                           o.checkpoint.async ? " written in the background, training waited " : " written in ",
                           human_time(saves.seconds())));
  }
  if (verdict.stopped_early) {
    rows.emplace_back("next", "the same command with --checkpoint.resume=latest");
  } else if (o.trace.level != trace::Level::off) {
    rows.emplace_back("next", "python3 analysis/report.py " + o.output.dir);
  }
  print_table("end", rows);
  std::printf("# %s\n", verdict.text.c_str());
  std::fflush(stdout);
}

}  // namespace shoal::app
