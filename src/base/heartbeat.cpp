// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/heartbeat.hpp"

#include "shoal/base/activity.hpp"

namespace shoal::heartbeat {

void phase(const char* name) { activity::enter_phase(name); }
void beat() { activity::beat(); }
const char* current_phase() { return activity::phase(); }
std::int64_t silence_ns() { return activity::silence_ns(); }

}  // namespace shoal::heartbeat
