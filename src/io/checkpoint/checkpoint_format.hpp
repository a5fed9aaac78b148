// SPDX-License-Identifier: Apache-2.0
// Definitions for both writing and reading checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::io::checkpoint_format {

inline constexpr std::int64_t version = 1;
inline constexpr const char* temporary_suffix = ".partial";

/// Product of the extents. fail() if it is too large for an address.
std::size_t elements(const std::vector<std::size_t>& shape, const std::string& name);
/// The shape as text: "[65, 128]".
std::string print(const std::vector<std::size_t>& shape);
/// Group of a dataset: "/moments/first/" for "/moments/first/transformer.wte.weight".
std::string group_of(const std::string& dataset);

}  // namespace shoal::io::checkpoint_format
