// SPDX-License-Identifier: Apache-2.0
// Which points a study has.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/plan/plan_time.hpp"
#include "app/study/point.hpp"
#include "app/study/request.hpp"
#include "shoal/config/options.hpp"

namespace shoal::app {

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
