// SPDX-License-Identifier: Apache-2.0
#include "app/support/cells.hpp"

#include <algorithm>

#include "shoal/base/output.hpp"

namespace shoal::app {

std::vector<std::size_t> widths_of(const std::vector<Cells>& lines) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const Cells& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  }
  return widths;
}

void print_cells(const Cells& cells, const std::vector<std::size_t>& widths, char first) {
  std::string line(1, first);
  for (std::size_t c = 0; c < cells.size(); ++c) {
    line.append(widths[c] + (c == 0 ? 0 : 2) - cells[c].size(), ' ');
    line += cells[c];
  }
  output::print(line.substr(0, line.find_last_not_of(' ') + 1) + "\n");
}

}  // namespace shoal::app
