// SPDX-License-Identifier: Apache-2.0
#include "app/train/step_log.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "app/support/text_table.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"

namespace shoal::app {

namespace {

bool output_redraws() {
  const char* const asked = std::getenv("SHOAL_PROGRESS");
  if (asked == nullptr || std::string_view(asked) == "auto") return isatty(STDOUT_FILENO) == 1;
  require_input(std::string_view(asked) == "redraw" || std::string_view(asked) == "plain", "SHOAL_PROGRESS = ", asked,
                " is unknown; allowed: auto, plain, redraw");
  return std::string_view(asked) == "redraw";
}

}  // namespace

StepLog::StepLog(const ResolvedRun& resolved, comm::World& world, double peak_gflops, std::int64_t first_step)
    : resolved_(resolved),
      ranks_(world.size()),
      peak_gflops_(peak_gflops),
      first_step_(first_step),
      prints_(world.all().rank() == 0),
      redraws_(prints_ && output_redraws()) {
  if (prints_) {
    std::printf(
        "# %% peak: %.4g FLOP per token (6 x weights in matrix products + attention to earlier tokens), as a share of\n",
        model::flops_per_token(resolved.options.model));
    std::printf("# the cores' measured peak in matrix products, %.0f GFLOP/s x %s\n", peak_gflops,
                counted(ranks_, "rank").c_str());
    std::printf("#   step      loss  grad norm        lr   tokens/s  %% peak        ETA%s\n",
                resolved.options.adascale.on ? "    gain   of steps" : "");
    std::fflush(stdout);
  }
}

std::string StepLog::line(const StepReport& report, double seconds) {
  const config::Options& o = resolved_.options;
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
  return resolved_.options.adascale.on ? report.effective_steps : static_cast<double>(report.step);
}

void StepLog::step(const StepReport& report) {
  if (report.step == first_step_ + 1) begin_ = position(report) - (resolved_.options.adascale.on ? report.gain : 1);
  seconds_ += report.seconds;
  since_line_ += report.seconds;
  ++steps_since_line_;
  if (!prints_) return;
  if (report.overflow)
    note(text("step ", report.step, ": fp16 gradients overflowed at loss scale ", scale_text(report.loss_scale),
              "; update skipped"));
  if (!report.broken.empty()) note(text("step ", report.step, ": ", report.broken, "; update skipped"));
  const auto& train = resolved_.options.train;
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

void StepLog::validation(std::int64_t step, double loss, bool lowest) {
  note(text("step ", step, ": validation loss ", fixed(loss, 4), lowest ? ", the lowest so far" : ""));
}

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

}  // namespace shoal::app
