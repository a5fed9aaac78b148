// SPDX-License-Identifier: Apache-2.0
// Lists of faults that a run causes on purpose. Lists that cannot be read, and faults that cannot happen: tests/refusals.
#include "shoal/config/faults.hpp"

#include <gtest/gtest.h>

namespace shoal::config {
namespace of_faults_test {

std::string described(const std::string& list, std::size_t step = 1, std::size_t rank = 0) {
  const auto found = faults({list, step, rank});
  if (!found) return "not a list";
  std::string words;
  for (const Fault& fault : *found) words += (words.empty() ? "" : "; ") + describe(fault);
  return words;
}

TEST(Faults, NoneIsNone) { EXPECT_EQ(described("none", 3, 1), ""); }

TEST(Faults, AKindAloneIsAtTheStepAndRankOfTheOptions) {
  EXPECT_EQ(described("hang", 3, 1), "hang in step 3 on rank 1");
  EXPECT_EQ(described("kill"), "kill in step 1 on rank 0");
}

TEST(Faults, AListNamesStepAndRankOfEach) {
  EXPECT_EQ(described("slow@2:1, io_error @ 5 : 0,corrupt", 7),
            "slow in step 2 on rank 1; io_error in step 5 on rank 0; corrupt in step 7 on rank 0");
}

TEST(Faults, AnythingElseIsNoList) {
  for (const char* const list :
       {"", "explode", "kill,", ",kill", "kill@", "kill@3", "kill@3:", "kill@:1", "kill@0:1", "kill@-1:0", "kill@3:1:2",
        "kill@3:x", "none,kill", "kill hang", "Kill", "kill@99999999999999999999:0"}) {
    EXPECT_EQ(described(list), "not a list") << list;
  }
}

}  // namespace of_faults_test
}  // namespace shoal::config
