// SPDX-License-Identifier: Apache-2.0
#include "app/train/verdict.hpp"

#include "app/support/text_table.hpp"
#include "shoal/base/counted.hpp"

namespace shoal::app {

namespace {

/// Why updates were skipped.
std::string why_skipped(const History& history) {
  const bool overflows = history.steps.overflows() > 0, not_finite = history.steps.not_finite() > 0;
  return overflows && not_finite ? "loss scale overflow, not finite" : overflows ? "loss scale overflow" : "not finite";
}

}  // namespace

std::string position_text(const config::Options& options, const History& history) {
  if (history.steps.empty()) return "0 steps";
  const StepReport& last = history.steps.last();
  if (!options.adascale.on) return text(last.step, " of ", counted(options.train.steps, "step"));
  return text(counted(last.step, "step"), ", worth ", fixed(last.effective_steps, 1), " small-batch steps (",
              options.train.steps, " were asked for)");
}

Verdict judge(const ResolvedRun& resolved, const Memory& memory, const History& history, Exit exit) {
  Verdict verdict{.exit = exit,
                  .stopped_early = exit == Exit::requeue,
                  .steps_made = history.steps.size(),
                  .updates_skipped = history.steps.skipped(),
                  .text = {}};
  const bool updated = history.steps.empty() || history.updated_before || history.steps.any_updated();
  const bool as_planned = resolved.plan.bytes == memory.taken();
  verdict.ok = as_planned && updated && !verdict.stopped_early;
  if (verdict.stopped_early) {  // even if no update was made: the resumed run continues with a smaller loss scale
    verdict.text = text("STOPPED EARLY after ", position_text(resolved.options, history), " (exit code 75: requeue)");
  } else if (!updated) {
    verdict.exit = Exit::failed;
    verdict.text = text(
        "NO UPDATE: ", verdict.steps_made == 1 ? "the only update was" : text("all ", verdict.steps_made, " updates were"),
        " skipped (", why_skipped(history), ")");
    return verdict;
  } else {
    verdict.text = text(as_planned ? "OK: " : "MEMORY WAS NOT AS PLANNED: ",
                        history.steps.empty() ? "no steps were left to do" : position_text(resolved.options, history));
  }
  if (verdict.updates_skipped > 0) {
    verdict.text += text(", ", counted(verdict.updates_skipped, "update"), " skipped (", why_skipped(history), ")");
  } else if (!history.steps.empty() && !verdict.stopped_early) {
    verdict.text += ", every update applied";
  }
  return verdict;
}

}  // namespace shoal::app
