// SPDX-License-Identifier: Apache-2.0
// A point of a study: one run, with its options, its memory and the step that the plan predicts for it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "app/study/request.hpp"
#include "shoal/base/memory.hpp"
#include "shoal/config/options.hpp"
#include "shoal/plan/step_time.hpp"

namespace shoal::app {

struct StudyPoint {
  std::string name;               ///< "stage_3-n2x1-b8-g32-r1": its directory and its scripts
  std::string strategy;           ///< as written in study.strategies
  std::vector<Scaling> scalings;  ///< the curves to which it belongs
  StudyGrid grid;
  int repeat = 1;               ///< from 1
  config::Options options;      ///< valid for these ranks; batch.micro and batch.global are the point's
  std::size_t limit = 0;        ///< bytes that a rank may take
  Ledger planned;               ///< bytes of rank 0, or of the stage that takes most
  plan::StepTime step;          ///< predicted; seconds are set only if `timed`
  bool timed = false;           ///< study.network was given
  bool same_trajectory = true;  ///< its losses are those of all exact strategies

  std::size_t tokens() const { return options.batch.global * options.model.block_size; }  ///< of a step
};

}  // namespace shoal::app
