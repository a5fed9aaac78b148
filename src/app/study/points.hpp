// SPDX-License-Identifier: Apache-2.0
// The points of a study: one run each, with its options, its memory and the step that the plan predicts for it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "../plan_time.hpp"
#include "request.hpp"
#include "shoal/base/memory.hpp"
#include "shoal/config/options.hpp"

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

/// All points, by strategy, scaling, grid and repeat. A run that belongs to two curves is one point. bad_input() with a line
/// for each strategy that cannot run on one of the grids, and for what does not fit into memory: nothing was written then.
/// `times`: the machine of study.network, if it was given.
std::vector<StudyPoint> study_points(const config::Invocation& study, const StudyRequest& request,
                                     const std::optional<TimeModel>& times);

/// The machine that study.network describes; nothing if the option is empty.
std::optional<TimeModel> study_times(const config::Invocation& study, const StudyRequest& request);

/// Every option of the point that another run may not have if its results are to count as this point's: all but paths, and
/// when a run stops or resumes.
std::map<std::string, std::string> identity_of(const config::Options& options);
bool is_of_identity(const std::string& option);

}  // namespace shoal::app
