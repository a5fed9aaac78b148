// SPDX-License-Identifier: Apache-2.0
#include "app/train/closing.hpp"

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "app/support/output_paths.hpp"
#include "app/support/process_memory.hpp"
#include "app/support/shell_words.hpp"
#include "app/support/statistics.hpp"
#include "app/support/text_table.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/base/output.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::app {

namespace {

/// The rows about the steps of this run, of which there is at least one.
TextRows step_rows(const ResolvedRun& resolved, const History& history, const Verdict& verdict) {
  const config::Options& o = resolved.options;
  const StepReport &first = history.steps.first(), &last = history.steps.last();
  TextRows rows = {{"ended", text(verdict.stopped_early ? "stopped by " + history.stopped_by + " " : "", "after ",
                                  position_text(o, history))}};
  std::string loss;
  if (!history.validation.empty()) loss = text("validation ", fixed(history.validation.back().second, 4), "; ");
  loss +=
      text("training ", fixed(first.loss, 4), " at step ", first.step, ", ", fixed(last.loss, 4), " at step ", last.step);
  if (resolved.dataset.entropy_rate) loss += text("; best possible ", fixed(*resolved.dataset.entropy_rate, 4));
  rows.emplace_back("loss", loss);
  const std::vector<double> seconds = history.steps.seconds();
  const double tokens = static_cast<double>(o.batch.global * o.model.block_size);
  rows.emplace_back("speed", text(fixed(tokens / median(seconds), 0), " tokens/s (median step ", human_time(median(seconds)),
                                  "); ", counted(seconds.size(), "step"), " in ",
                                  human_time(std::accumulate(seconds.begin(), seconds.end(), 0.0))));
  if (history.steps.overflows() > 0) {
    rows.emplace_back("overflows", text(counted(history.steps.overflows(), "update"), " skipped; loss scale ",
                                        scale_text(last.loss_scale), " at step ", last.step));
  }
  const std::size_t not_finite = history.steps.not_finite();
  if (not_finite > 0) rows.emplace_back("not finite", text(counted(not_finite, "update"), " skipped"));
  return rows;
}

}  // namespace

void print_closing(comm::World& world, const ResolvedRun& resolved, const Memory& memory, const History& history,
                   const Saves& saves, const Verdict& verdict) {
  if (world.all().rank() != 0) return;
  const config::Options& o = resolved.options;
  TextRows rows =
      history.steps.empty() ? TextRows{{"ended", "no steps were left to do"}} : step_rows(resolved, history, verdict);
  const std::string planned =
      resolved.plan.bytes == memory.taken() ? "as planned" : "planned " + bytes_text(resolved.plan.bytes.total());
  rows.emplace_back("memory", text("rank 0: ", bytes_text(memory.taken().total()), ", ", planned, "; whole process at most ",
                                   bytes_text(peak_rss_bytes())));
  if (saves.last()) {
    rows.emplace_back("checkpoint",
                      text(saves.last()->string(), ", complete; all of this run: ", bytes_text(saves.bytes()),
                           o.checkpoint.async ? " written in the background, training waited " : " written in ",
                           human_time(saves.seconds())));
  }
  if (history.best) {
    rows.emplace_back("best", text((checkpoint_directory(o) / io::checkpoint_name(history.best->step)).string(),
                                   ", validation ", fixed(history.best->loss, 4)));
  }
  if (!saves.last() && !history.steps.empty() && o.output.export_dir.empty()) {
    rows.emplace_back("checkpoint", text("none: the weights are not kept; set checkpoint.last = true, checkpoint.every or ",
                                         "output.export to keep them"));
  }
  if (verdict.stopped_early) {
    rows.emplace_back("next", "the same command with --checkpoint.resume=latest");
  } else if (const auto report = analysis_script("report.py"); report && o.trace.level != trace::Level::off) {
    rows.emplace_back("next", text("python3 ", path_word(*report), " ", path_word(o.output.dir)));
  }
  print_table("end", rows);
  output::print(text("# ", verdict.text, "\n"));
  if (verdict.exit == Exit::failed) output::complain(text("shoal: ", verdict.text, "\n"));
}

}  // namespace shoal::app
