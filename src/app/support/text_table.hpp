// SPDX-License-Identifier: Apache-2.0
// Texts and tables for people, in the log of a run and the output of other commands.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace shoal::app {

/// std::snprintf() to a text of at most 255 bytes; more is cut off.
template <typename... Args>
std::string print_to_string(const char* format, Args... args) {
  char buffer[256];
  const int length = std::snprintf(buffer, sizeof buffer, format, args...);
  return {buffer, static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(sizeof buffer) - 1))};
}

/// "1 h 02 min", "43 s".
std::string human_time(double seconds);
/// The number with this many digits after the point.
std::string fixed(double value, int digits);
/// A whole number in groups of three digits: "817 920".
std::string grouped(std::size_t value);
/// A factor of the loss: "2^16"; one that is no power of two as a number.
std::string scale_text(double scale);

using TextRows = std::vector<std::pair<std::string, std::string>>;
/// Prints lines "name   value", aligned, under a title. The texts may come from a file, so control characters are escaped.
void print_table(const std::string& title, const TextRows& rows);

}  // namespace shoal::app
