// SPDX-License-Identifier: Apache-2.0
// train.stop_after: when the run has to stop. Only rank 0 reads clocks. Its decision reaches the other ranks with the losses
// of a step, so all stop after the same one.
#pragma once

#include <cstdint>
#include <string>

#include "app/train/time_left.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"

namespace shoal::app {

/// What the clock is told of the saves so far: Saves::seconds(), longest_s() and under_way().
struct SaveTimes {
  double waited_s = 0, longest_s = 0;
  bool under_way = false;
};

class StopClock {
 public:
  /// Collective. With `auto` rank 0 asks the batch system; bad_input() if it does not say what is left of the job.
  StopClock(comm::World& world, const config::Invocation& invocation);

  /// Rank 0 prints what the batch system said.
  void print_limit() const;
  /// The first step begins. A limit in seconds counts from here.
  void start();
  /// To be called where the run may stop: after a step, and the evaluation and the save that followed it.
  void lap(const SaveTimes& saves);

  /// Returns true on rank 0 if the run must stop after the step that is being made; false on the other ranks. It must if a
  /// limit in seconds is over, also one of the deck beside `auto` on the command line; with `auto`, also if what is left
  /// might not be enough for another step, as long as the longest so far, and for a save.
  bool over() const;
  /// If the limit was shorter than one step: a sentence that says so.
  std::string too_short() const;

 private:
  double reserve_s() const;
  bool limit_over() const;

  bool decides_;                                                // on rank 0
  double limit_s_ = 0;                                          // in seconds from the first step; 0: none
  bool asks_ = false;                                           // auto
  TimeLeft left_;                                               // of the job
  double end_s_ = 0;                                            // seconds kept for the end of the program
  std::int64_t deadline_ns_ = 0, job_end_ns_ = 0, lap_ns_ = 0;  // 0: none
  double saved_s_ = 0;                                          // SaveTimes::waited_s at the last lap
  double longest_step_s_ = 0, longest_save_s_ = 0;
  int saves_left_ = 1;  // until the run ends: one, or two if one is still under way
  int laps_ = 0;
};

}  // namespace shoal::app
