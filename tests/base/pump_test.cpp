// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/pump.hpp"

#include <gtest/gtest.h>

namespace shoal {
namespace of_pump_test {

int first_calls = 0, second_calls = 0;
void first() { ++first_calls; }
void second() { ++second_calls; }
/// Uninstalls itself, as the function of comm/ does when its last operation has ended.
void once() {
  ++first_calls;
  set_pump(nullptr);
}

class Pump : public testing::Test {
 protected:
  void SetUp() override { first_calls = second_calls = 0; }
  void TearDown() override { set_pump(nullptr); }
};

TEST_F(Pump, DoesNothingBeforeAFunctionIsInstalled) { EXPECT_NO_FATAL_FAILURE(pump()); }

TEST_F(Pump, CallsTheFunctionOncePerCall) {
  set_pump(first);
  EXPECT_EQ(first_calls, 0) << "set_pump() must not call the function";
  pump();
  pump();
  EXPECT_EQ(first_calls, 2);
}

TEST_F(Pump, TheLastFunctionInstalledReplacesTheOneBefore) {
  set_pump(first);
  set_pump(second);
  pump();
  EXPECT_EQ(first_calls, 0);
  EXPECT_EQ(second_calls, 1);
}

TEST_F(Pump, DoesNothingAfterItsFunctionIsUninstalled) {
  set_pump(first);
  set_pump(nullptr);
  pump();
  EXPECT_EQ(first_calls, 0);
}

TEST_F(Pump, AFunctionMayUninstallItself) {
  set_pump(once);
  pump();
  pump();
  EXPECT_EQ(first_calls, 1);
}

}  // namespace of_pump_test
}  // namespace shoal
