// SPDX-License-Identifier: Apache-2.0
// Numbers as people write them on the command line of `shoal plan`, and bytes as they read them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::plan {

/// "1,2,4,8" as it stands, or "1,2,4,...,1024": the dots stand for doubling the number before them until the one after them.
/// Anything else is bad input.
std::vector<int> rank_counts(std::string_view list);

/// "24GiB", "80 GB", "512MiB": powers of 1024 with an i, of 1000 without. `option` names it in messages (bad input).
std::size_t bytes(std::string_view size, std::string_view option);

/// Three digits and a unit: "475 MiB".
std::string bytes_text(std::size_t bytes);

}  // namespace shoal::plan
