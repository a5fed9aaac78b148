// SPDX-License-Identifier: Apache-2.0
// Linked into a program of the portable kernels, it makes their teams have four threads.
#include "kernels/portable/launch.hpp"

namespace {
[[maybe_unused]] const bool set = [] {
  shoal::kernels::portable::set_team_size(4);
  return true;
}();
}  // namespace
