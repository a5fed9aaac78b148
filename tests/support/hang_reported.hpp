// SPDX-License-Identifier: Apache-2.0
// Whether a hang was reported in time, by the report's own words. The time until the run has ended says less: it contains
// the start and the end of all ranks, which take long on a busy machine.
#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace shoal::test {

/// Reports come at most this long after comm.timeout, as a fraction of it: Inquiry::longest_s() (src/comm/hang/inquiry.hpp),
/// which is the sum of the period between two questions (1/8), twice the time for an answer (2/16 + at most 1/10) and three
/// intervals of the watchdog (at most 3/16).
inline constexpr double longest_after_timeout = 0.7625;

/// said: contains a report that begins with "rank 1 (...) has shown no sign of life for 4 s" or "rank 0 has waited 4 s". Its
/// seconds, which are rounded down, begin when the rank fell silent or began to wait. more_s: further seconds that this
/// report may take.
inline void expect_reported_in_time(const std::string& said, double timeout_s, double more_s = 0) {
  static const std::regex seconds("shoal: .*(?:shown no sign of life for|has waited) ([0-9]+) s"),
      timeout("\\(comm\\.timeout = ([0-9.]+)\\)");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(said, found, seconds)) << said;
  EXPECT_GT(std::stod(found[1]), timeout_s - 1) << said;
  EXPECT_LE(std::stod(found[1]), (1 + longest_after_timeout) * timeout_s + more_s) << said;
  if (std::regex_search(said, found, timeout)) {
    EXPECT_EQ(std::stod(found[1]), timeout_s) << said;
  }
}

}  // namespace shoal::test
