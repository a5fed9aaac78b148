// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shoal::app {

/// "0.1.0+g1234abcd": the release, and the commit that was built. If the sources differ from the commit, a checksum of them
/// follows (".s5678efab"); without git it stands in the commit's place. So two programs have the same version only if they
/// were built from the same sources.
std::string version();

}  // namespace shoal::app
