// SPDX-License-Identifier: Apache-2.0
// The results of a study in the terminal.
#pragma once

#include "app/study/results.hpp"

namespace shoal::app {

/// A line for each curve and grid, with medians over repeats. Efficiency: tokens/s per rank, as a share of that on the
/// fewest ranks of the curve.
void print_study(const StudyResults& results);

/// "3 done, 1 failed".
std::string study_progress(const StudyResults& results);

}  // namespace shoal::app
