// SPDX-License-Identifier: Apache-2.0
// Numbers as text: reads lists of numbers of ranks and sizes in bytes as people write them, and prints bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shoal {

/// Reads "1,2,4,8" or "1,2,4,...,1024". Dots double the number before them until the number after them is reached. Anything
/// else is an error (bad_input), which begins with `option`.
std::vector<int> rank_counts(std::string_view list, std::string_view option = "--ranks ");

/// Reads "24GiB", "80 GB" or "512MiB": units with an i are powers of 1024, others of 1000. Errors (bad_input) begin with
/// `option`.
std::size_t parse_bytes(std::string_view size, std::string_view option);

/// Returns three digits and a unit: "475 MiB".
std::string bytes_text(std::size_t bytes);

}  // namespace shoal
