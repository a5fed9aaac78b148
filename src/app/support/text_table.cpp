// SPDX-License-Identifier: Apache-2.0
#include "app/support/text_table.hpp"

#include <cmath>

#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/base/printable.hpp"

namespace shoal::app {

std::string fixed(double value, int digits) { return print_to_string("%.*f", digits, value); }

std::string grouped(std::size_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), " ");
  return digits;
}

std::string human_time(double seconds) {
  const auto whole = std::lround(seconds);
  if (whole >= 3600) return print_to_string("%ld h %02ld min", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return print_to_string("%ld min %02ld s", whole / 60, whole % 60);
  return print_to_string("%.3g s", seconds);
}

std::string scale_text(double scale) {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5 ? text("2^", exponent - 1) : text(scale);
}

void print_table(const std::string& title, const TextRows& rows) {
  std::size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, name.size());
  std::string lines = "# " + printable(title) + "\n";
  for (const auto& [name, value] : rows) {
    const std::string shown = printable(name), gap(width - std::min(width, shown.size()), ' ');
    lines += text("#   ", shown, gap, "  ", printable(value, "\n"), "\n");
  }
  output::print(lines);
}

}  // namespace shoal::app
