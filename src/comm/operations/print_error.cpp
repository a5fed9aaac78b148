// SPDX-License-Identifier: Apache-2.0
#include "comm/operations/print_error.hpp"

#include <cstdio>

#include "shoal/base/output.hpp"
#include "shoal/base/printable.hpp"

namespace shoal::comm {

void print_error(const std::string& head, std::string_view message) {
  std::string lines;
  while (true) {
    const std::size_t end = message.find('\n');
    lines += head + printable(message.substr(0, end)) + "\n";
    if (end == std::string_view::npos || end + 1 == message.size()) break;
    message.remove_prefix(end + 1);
  }
  static std::string last;
  if (lines == last) return;
  last = lines;
  std::fflush(stdout);
  output::complain(lines);
}

}  // namespace shoal::comm
