// SPDX-License-Identifier: Apache-2.0
// A run marks its progress here. The watchdog (comm/watchdog.hpp) reads the marks and reports a rank that has stopped making
// progress.
#pragma once

#include <cstdint>

namespace shoal::heartbeat {

/// Enters a phase ("start", "data", "step", "checkpoint", ...). `name` must have static lifetime. Counts as a beat.
void phase(const char* name);
/// Marks progress within the phase. Cheap: it reads the clock and stores one atomic number.
void beat();

const char* current_phase();
/// Nanoseconds since the last beat (steady clock). May be called from any thread.
std::int64_t silence_ns();

}  // namespace shoal::heartbeat
