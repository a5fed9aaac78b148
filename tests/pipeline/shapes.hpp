// SPDX-License-Identifier: Apache-2.0
// The schedules and shapes that tests of pipelines go through.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "shoal/base/error.hpp"
#include "shoal/pipeline/schedule.hpp"

namespace shoal::pipeline::test {

struct Most {
  int stages = 8, parts = 4;
  std::size_t turns = 32;
};

/// With AddressSanitizer a test takes some twenty times as long; smaller shapes run through the same code.
constexpr Most fewer_if_sanitized(Most most) {
#ifdef __SANITIZE_ADDRESS__
  most.stages = std::min(most.stages, 4);
  most.turns = std::min<std::size_t>(most.turns, 12);
#endif
  return most;
}

inline std::string name_of_case(const ScheduleRow& row, const ScheduleShape& shape) {
  return text(row.name, ", ", shape.stages, " stages, ", shape.parts, " parts, ", shape.turns, " turns",
              shape.skip ? ", a skip connection" : "");
}

/// Calls check(row, shape) for every schedule and shape that are possible together, without skip connections, until one
/// fails.
template <typename Check>
void for_all(const Most& most, Check check) {
  for (const ScheduleRow& row : schedules) {
    int cases = 0;
    for (int stages = 1; stages <= (row.several_stages ? most.stages : 1); ++stages) {
      for (int parts = 1; parts <= (row.several_parts ? most.parts : 1); ++parts) {
        for (std::size_t turns = 1; turns <= most.turns; ++turns) {
          if (row.whole_groups && turns % static_cast<std::size_t>(stages) != 0) continue;
          SCOPED_TRACE(name_of_case(row, {stages, 0, parts, turns}));
          check(row, ScheduleShape{stages, 0, parts, turns});
          if (testing::Test::HasFailure()) return;
          ++cases;
        }
      }
    }
    EXPECT_GE(cases, static_cast<int>(most.turns)) << row.name;
  }
}

/// The same, without a skip connection and with one.
template <typename Check>
void for_all_with_skips(const Most& most, Check check) {
  for_all(most, [&](const ScheduleRow& row, ScheduleShape shape) {
    check(row, shape);
    shape.skip = true;
    SCOPED_TRACE("with a skip connection");
    if (!testing::Test::HasFailure()) check(row, shape);
  });
}

}  // namespace shoal::pipeline::test
