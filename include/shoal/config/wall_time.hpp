// SPDX-License-Identifier: Apache-2.0
// Wall times as batch systems write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shoal::config {

/// The forms that wall_time() reads, for messages.
inline constexpr const char* wall_time_forms = "[D-]HH:MM:SS";

/// Seconds of "HH:MM:SS" (the hours may be more than 24), "D-HH:MM:SS" or "MM:SS". These mean the same to SLURM and to PBS.
/// Nothing for any other text, also not for a number without a colon: SLURM reads it as minutes, PBS as seconds.
std::optional<std::uint64_t> wall_time(std::string_view text);

/// "00:59:30", "100:00:00": a form that SLURM and PBS read.
std::string wall_time_text(std::uint64_t seconds);

}  // namespace shoal::config
