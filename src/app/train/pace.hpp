// SPDX-License-Identifier: Apache-2.0
// How long the rest of a run takes, from the times of what it has done: the ETA in its log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace shoal::app {

/// What is done between steps: after every so many of them (0: never), and perhaps after the last one.
struct Pause {
  std::size_t every = 0;
  bool at_end = false;
};

class Pace {
 public:
  /// end: train.steps, or with AdaScale the number of small-batch steps that it stands for. first_step: number of steps
  /// before this run's first.
  Pace(double end, std::int64_t first_step, const Pause& evaluations, const Pause& saves);

  /// A step has taken this time. at: how far the run is now, as `end` counts; advance: by how much this step has moved it.
  void step(std::int64_t number, double at, double advance, double seconds);
  void evaluation(double seconds) { evaluations_.add(seconds); }
  void save(double seconds) { saves_.add(seconds); }

  bool in_first_step() const { return step_ == first_step_ + 1; }

  /// Seconds until the end, after the last step() that was told. Nothing before the run has moved in a step after its first:
  /// that one also opens files and connections and chooses algorithms, so it says little about the others.
  std::optional<double> left_s() const;

 private:
  struct Pauses {
    Pause when;
    double seconds = 0;
    std::size_t count = 0;

    void add(double took) { seconds += took, ++count; }
    double left_s(std::int64_t step, double steps_left) const;
  };

  double end_;
  std::int64_t first_step_;
  Pauses evaluations_, saves_;
  std::int64_t step_ = 0;
  double at_ = 0;
  double moved_ = 0, seconds_ = 0, steps_ = 0;  // without the first step
};

}  // namespace shoal::app
