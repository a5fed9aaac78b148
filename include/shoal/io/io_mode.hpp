// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shoal/base/names.hpp"

namespace shoal::io {

/// checkpoint.io: how raw data are written. independent: each rank writes its slices at their place in the file. collective:
/// through MPI-IO's collective buffering, for parallel file systems on which many writers are slow. automatic: collective on
/// Lustre, GPFS and BeeGFS unless there are more ranks than cores (MPI-IO's collectives spin), independent elsewhere.
enum class IoMode : std::uint8_t { automatic, independent, collective };
inline constexpr std::array io_mode_names = {Named{IoMode::automatic, "auto"}, Named{IoMode::independent, "independent"},
                                             Named{IoMode::collective, "collective"}};
constexpr const auto& table_of(IoMode) { return io_mode_names; }

}  // namespace shoal::io
