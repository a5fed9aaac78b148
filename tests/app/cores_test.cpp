// SPDX-License-Identifier: Apache-2.0
// Sets of cores, as the Linux kernel lists them.
#include "app/setup/cores.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace shoal::app {
namespace of_cores_test {

TEST(Cores, AreReadAndListedAsTheKernelDoes) {
  for (const char* const list : {"0", "0-3", "0-3,8", "5,7,9", "62-65,127-128", "1023-1024,8191", ""}) {
    EXPECT_EQ(list_of(cores_in(list)), list);
  }
  EXPECT_EQ(number_of(cores_in("0-3,8,64-127")), 4 + 1 + 64);
  EXPECT_EQ(list_of(cores_in("3,2,1\n")), "1-3");
}

TEST(Cores, WhatIsNoListEndsIt) {
  using Case = std::pair<const char*, const char*>;
  for (const auto& [given, list] : {Case{"0-1,x", "0-1"}, Case{"4,", "4"}, Case{"4-", ""}, Case{"-4", ""}, Case{"a", ""},
                                    Case{"7;8", "7"}, Case{"0,99999999999999999999999", "0"}}) {
    EXPECT_EQ(list_of(cores_in(given)), list) << given;
  }
}

TEST(Cores, BeyondTheLastBitAreLeftOut) {
  EXPECT_EQ(list_of(cores_in("8190-18446744073709551615")), "8190-8191");
  EXPECT_EQ(number_of(cores_in("8192-9000")), 0);
  EXPECT_EQ(number_of(cores_in("9-8")), 0);
}

TEST(Cores, OverlapAndContainEachOther) {
  const CoreMask one = cores_in("0-3,100"), other = cores_in("3-5");
  EXPECT_TRUE(overlap(one, other));
  EXPECT_FALSE(overlap(one, cores_in("4-99")));
  EXPECT_EQ(list_of(united(one, other)), "0-5,100");
  EXPECT_TRUE(contains(one, cores_in("1,100")));
  EXPECT_TRUE(contains(one, cores_in("")));
  EXPECT_FALSE(contains(one, other));
}

TEST(Cores, OfThisMachineAreInItsDomains) {
  const std::vector<CoreMask> domains = memory_domains();
  CoreMask all{};
  for (const CoreMask& domain : domains) all = united(all, domain);
  if (!domains.empty()) {
    EXPECT_TRUE(contains(all, comm::usable_cores()));
  }
}

}  // namespace of_cores_test
}  // namespace shoal::app
