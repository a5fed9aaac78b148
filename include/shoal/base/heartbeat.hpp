// SPDX-License-Identifier: Apache-2.0
// Every phase of a run says that it is alive; a watchdog (comm/watchdog.hpp) names who is not.
#pragma once

#include <cstdint>

namespace shoal::heartbeat {

/// Enters a phase ("start", "data", "step", "checkpoint", ...): a string with static lifetime. Counts as a beat.
void phase(const char* name);
/// The phase goes on. Cheap: an atomic store.
void beat();

const char* current_phase();
/// Nanoseconds since the last beat (steady clock). Callable from any thread.
std::int64_t silence_ns();

}  // namespace shoal::heartbeat
