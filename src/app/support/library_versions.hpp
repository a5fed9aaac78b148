// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace shoal::app {

/// (library, version) of everything the program is linked with.
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace shoal::app
