// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace shoal::app {

/// The middle value, or the mean of the two in the middle. There must be one.
double median(std::vector<double> values);

}  // namespace shoal::app
