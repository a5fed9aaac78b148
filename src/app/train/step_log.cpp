// SPDX-License-Identifier: Apache-2.0
#include "app/train/step_log.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "app/support/text_table.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/comm/mpiexec.hpp"

namespace shoal::app {

namespace {

/// Without a terminal a step has a line if the last one is this old, so that a reader sees that the run goes on.
constexpr std::int64_t longest_silence_ns = 10'000'000'000;

bool output_redraws() {
  const char* const asked = std::getenv("SHOAL_PROGRESS");
  if (asked == nullptr || std::string_view(asked) == "auto") {
    return isatty(STDOUT_FILENO) == 1 || comm::mpiexec_prints_to_terminal();
  }
  require_input(std::string_view(asked) == "redraw" || std::string_view(asked) == "plain", "SHOAL_PROGRESS = ", asked,
                " is unknown; allowed: auto, plain, redraw");
  return std::string_view(asked) == "redraw";
}

}  // namespace

bool has_line(std::int64_t step, std::size_t log_every, bool draws_progress, std::int64_t since_last_line_ns) {
  return static_cast<std::size_t>(step) % log_every == 0 || (!draws_progress && since_last_line_ns >= longest_silence_ns);
}

StepLog::StepLog(const ResolvedRun& resolved, comm::World& world, double peak_gflops, const Pace& pace)
    : resolved_(resolved),
      ranks_(world.size()),
      peak_gflops_(peak_gflops),
      pace_(pace),
      prints_(world.all().rank() == 0),
      redraws_(prints_ && output_redraws()),
      last_line_ns_(trace::now_ns()) {
  if (!prints_) return;
  output::print(
      print_to_string("# %% peak: %.4g FLOP per token (6 x weights in matrix products + attention to earlier "
                      "tokens), as a share of\n",
                      model::flops_per_token(resolved.options.model)));
  output::print(print_to_string("# the cores' measured peak in matrix products, %.0f GFLOP/s x %s\n", peak_gflops,
                                counted(ranks_, "rank").c_str()));
  output::print(text("#   step      loss  grad norm        lr   tokens/s  % peak        ETA",
                     resolved.options.adascale.on ? "    gain   of steps\n" : "\n"));
}

std::string StepLog::line(const StepReport& report, double seconds) {
  const config::Options& o = resolved_.options;
  const double rate = static_cast<double>(o.batch.global * o.model.block_size) / seconds;
  const double reached = rate * model::flops_per_token(o.model) * 1e-9 / ranks_;
  peak_gflops_ = std::max(peak_gflops_, reached);  // if the cores' clock was lower when the peak was measured
  const std::optional<double> left = pace_.left_s();
  const std::string eta = left ? human_time(*left) : "-";
  std::string line =
      print_to_string("%8lld %9.4f %10.4f %9.2e %10.0f %7.1f %10s", static_cast<long long>(report.step), report.loss,
                      report.norm, report.learning_rate, rate, 100 * reached / peak_gflops_, eta.c_str());
  if (o.adascale.on) line += print_to_string(" %7.3f %10.1f", report.gain, report.effective_steps);
  return line;
}

void StepLog::step(const StepReport& report) {
  const bool scaled = resolved_.options.adascale.on;
  pace_.step(report.step, scaled ? report.effective_steps : static_cast<double>(report.step), scaled ? report.gain : 1,
             report.seconds);
  since_line_ += report.seconds;
  ++steps_since_line_;
  if (!prints_) return;
  if (report.overflow)
    note(text("step ", report.step, ": fp16 gradients overflowed at loss scale ", scale_text(report.loss_scale),
              "; update skipped"));
  if (!report.broken.empty()) note(text("step ", report.step, ": ", report.broken, "; update skipped"));
  const std::size_t log_every = resolved_.options.train.log_every;
  if (report.last || pace_.in_first_step() || has_line(report.step, log_every, redraws_, trace::now_ns() - last_line_ns_)) {
    clear();
    output::print(line(report, since_line_ / static_cast<double>(steps_since_line_)) + "\n");
    since_line_ = 0;
    steps_since_line_ = 0;
    last_line_ns_ = trace::now_ns();
  } else if (redraws_) {
    output::draw("\r" + line(report, report.seconds));
    drawn_ = true;
  }
}

void StepLog::validation(std::int64_t step, double loss, double seconds, bool lowest) {
  pace_.evaluation(seconds);
  note(text("step ", step, ": validation loss ", fixed(loss, 4), lowest ? ", the lowest so far" : ""));
}

void StepLog::note(const std::string& line) {
  if (!prints_) return;
  clear();
  output::print(text("# ", line, "\n"));
}

/// Removes the redrawn line, so that another line can be printed in its place.
void StepLog::clear() {
  if (drawn_) output::draw(print_to_string("\r%100s\r", ""));
  drawn_ = false;
}

}  // namespace shoal::app
