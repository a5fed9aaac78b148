// SPDX-License-Identifier: Apache-2.0
// Faults that a run causes on purpose, so that users can try how their scripts take them (fault.kind).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/config/options.hpp"

namespace shoal::config {

enum class FaultKind : std::uint8_t { kill, hang, slow, io_error, corrupt, tier_flip, tier_error };
inline constexpr std::array fault_kind_names = {Named{FaultKind::kill, "kill"},
                                                Named{FaultKind::hang, "hang"},
                                                Named{FaultKind::slow, "slow"},
                                                Named{FaultKind::io_error, "io_error"},
                                                Named{FaultKind::corrupt, "corrupt"},
                                                Named{FaultKind::tier_flip, "tier_flip"},
                                                Named{FaultKind::tier_error, "tier_error"}};
constexpr const auto& table_of(FaultKind) { return fault_kind_names; }

struct Fault {
  FaultKind kind = FaultKind::kill;
  std::size_t step = 1;  ///< from 1
  std::size_t rank = 0;
};

/// The faults of fault.kind: "none", or a list with commas of KIND, at fault.step and fault.rank, and KIND@STEP:RANK.
/// Nothing if the list cannot be read.
std::optional<std::vector<Fault>> faults(const FaultOptions& options);

/// "hang in step 3 on rank 1".
std::string describe(const Fault& fault);

}  // namespace shoal::config
