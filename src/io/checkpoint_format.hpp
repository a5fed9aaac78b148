// SPDX-License-Identifier: Apache-2.0
// What writing and reading of checkpoints share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::io::checkpoint_format {

inline constexpr std::int64_t version = 1;
inline constexpr const char* temporary_suffix = ".partial";

/// Product of the extents; fails where it does not fit into memory addresses.
std::size_t elements(const std::vector<std::size_t>& shape, const std::string& name);
/// "[65, 128]".
std::string print(const std::vector<std::size_t>& shape);
/// "/moments/first/" of "/moments/first/transformer.wte.weight".
std::string group_of(const std::string& dataset);

}  // namespace shoal::io::checkpoint_format
