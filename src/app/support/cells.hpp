// SPDX-License-Identifier: Apache-2.0
// Tables whose columns are as wide as their widest cell.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shoal::app {

using Cells = std::vector<std::string>;

/// All lines must have the same number of cells, of which there is at least one line.
std::vector<std::size_t> widths_of(const std::vector<Cells>& lines);
/// Prints a line, aligned to the right. first: its first character.
void print_cells(const Cells& cells, const std::vector<std::size_t>& widths, char first);

}  // namespace shoal::app
