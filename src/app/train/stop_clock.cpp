// SPDX-License-Identifier: Apache-2.0
#include "app/train/stop_clock.hpp"

#include <algorithm>
#include <cmath>

#include "app/support/collective.hpp"
#include "app/support/text_table.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/config/located.hpp"
#include "shoal/config/wall_time.hpp"

namespace shoal::app {

namespace {

/// Longer than any run, and a number of nanoseconds still.
constexpr double longest_s = 1e9;
/// A step or a save may take this much longer than the longest so far.
constexpr double longer = 1.25;
/// The part of what is left that is kept for the end: summary, trace, MPI_Finalize, and a save that was not seen yet.
constexpr double part_for_end = 0.1, least_for_end_s = 5, most_for_end_s = 30;

constexpr double second_ns = 1e9;

}  // namespace

StopClock::StopClock(comm::World& world, const config::Invocation& invocation)
    : decides_(world.all().rank() == 0), limit_s_(invocation.options.train.stop_after) {
  if (limit_s_ != config::TrainOptions::as_the_job) return;
  limit_s_ = invocation.deck_stop_after;
  asks_ = true;
  on_rank_0(world.all(), [&] {
    left_ = time_left();
    require_input(left_.problem.empty(), config::located(text("train.stop_after = auto: ", left_.problem,
                                                              "; allowed: seconds, or ", config::wall_time_forms),
                                                         invocation.places));
  });
  if (!left_.seconds) return;
  end_s_ = std::clamp(part_for_end * *left_.seconds, least_for_end_s, most_for_end_s);
  job_end_ns_ = trace::now_ns() + static_cast<std::int64_t>(std::clamp(*left_.seconds, -longest_s, longest_s) * second_ns);
}

void StopClock::print_limit() const {
  if (!decides_ || !asks_) return;
  if (limit_s_ > 0) {
    output::print(text("# train.stop_after: the run stops after ", human_time(limit_s_), ", as the deck says\n"));
  }
  if (!left_.seconds) {
    output::print(text("# train.stop_after = auto: the job has no time limit (", left_.source, ")\n"));
    return;
  }
  output::print(
      text("# train.stop_after = auto: ", config::wall_time_text(static_cast<std::uint64_t>(std::max(0.0, *left_.seconds))),
           " are left of the job (", left_.source, "); the run stops when a step, a save and ", human_time(end_s_),
           " more may not fit\n"));
}

void StopClock::start() {
  lap_ns_ = trace::now_ns();
  if (limit_s_ > 0) deadline_ns_ = lap_ns_ + static_cast<std::int64_t>(std::min(limit_s_, longest_s) * second_ns);
}

void StopClock::lap(const SaveTimes& saves) {
  const std::int64_t now = trace::now_ns();
  const double waited_s = saves.waited_s - saved_s_;  // the training waited for saves
  longest_step_s_ = std::max(longest_step_s_, static_cast<double>(now - lap_ns_) / second_ns - waited_s);
  longest_save_s_ = saves.longest_s;
  saves_left_ = saves.under_way ? 2 : 1;  // the last save begins when the one before it is complete
  saved_s_ = saves.waited_s;
  lap_ns_ = now;
  ++laps_;
}

/// What must be left of the job when a step ends, so that another one is begun.
double StopClock::reserve_s() const { return longer * (longest_step_s_ + saves_left_ * longest_save_s_) + end_s_; }

/// A limit in seconds is used up to its end.
bool StopClock::limit_over() const { return deadline_ns_ != 0 && trace::now_ns() > deadline_ns_; }

bool StopClock::over() const {
  if (!decides_) return false;
  const double kept_until = static_cast<double>(trace::now_ns()) + reserve_s() * second_ns;
  return limit_over() || (job_end_ns_ != 0 && kept_until > static_cast<double>(job_end_ns_));
}

std::string StopClock::too_short() const {
  if (laps_ != 1) return {};
  const bool fixed_limit = limit_over();
  return text("train.stop_after = ", fixed_limit ? human_time(limit_s_) : "auto", " left time for one step only (",
              human_time(longest_step_s_), ", and ", human_time(longest_save_s_),
              " for its checkpoint): every job that resumes will make one step; allowed: ",
              fixed_limit ? "a longer time" : "jobs with more wall time");
}

}  // namespace shoal::app
