// SPDX-License-Identifier: Apache-2.0
#include "verdict.hpp"

#include <algorithm>

#include "report.hpp"

namespace shoal::app {

namespace {

/// Why updates were left out: fp16's loss scale where it was nothing else.
std::string why_skipped(const History& history) {
  const bool overflows = std::any_of(history.steps.begin(), history.steps.end(), [](const auto& r) { return r.overflow; });
  const bool broken =
      std::any_of(history.steps.begin(), history.steps.end(), [](const auto& r) { return !r.broken.empty(); });
  return overflows && broken ? "loss scale overflow, or not finite" : overflows ? "loss scale overflow" : "not finite";
}

}  // namespace

std::string position_text(const config::Options& options, const History& history) {
  if (history.steps.empty()) return "its start";
  const StepReport& last = history.steps.back();
  return options.adascale.on ? text("step ", last.step, ", which made ", fixed(last.effective_steps, 1), " of ",
                                    options.train.steps, " steps of the small batch (AdaScale)")
                             : text("step ", last.step, " of ", options.train.steps);
}

Verdict judge(const Setup& setup, const Memory& memory, const History& history, Exit exit) {
  Verdict verdict{.exit = exit, .stopped_early = exit == Exit::requeue, .steps_made = history.steps.size(), .text = {}};
  bool updated = history.steps.empty();
  for (const StepReport& report : history.steps) {
    if (report.overflow || !report.broken.empty()) ++verdict.updates_skipped;
    updated = updated || report.updated;
  }
  const bool as_planned = setup.plan.bytes == memory.taken();
  verdict.ok = as_planned && updated && !verdict.stopped_early;
  if (verdict.stopped_early) {  // also without an update: what is resumed goes on with a smaller loss scale
    verdict.text = text("STOPPED EARLY at ", position_text(setup.options, history), " (requeue)");
  } else if (!updated) {
    verdict.exit = Exit::failed;
    verdict.text = text("NO UPDATE: all ", verdict.steps_made, " updates were skipped (", why_skipped(history), ")");
    return verdict;
  } else {
    verdict.text = !as_planned ? "MEMORY WAS NOT AS PLANNED" : history.steps.empty() ? "OK, nothing was left to do" : "OK";
  }
  if (verdict.updates_skipped > 0) {
    verdict.text +=
        text(", ", verdict.updates_skipped, " of ", verdict.steps_made, " updates skipped (", why_skipped(history), ")");
  }
  return verdict;
}

}  // namespace shoal::app
