// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/error.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

namespace shoal {
namespace of_error_test {

/// Returns the Error that act() throws. The test fails if it throws none.
Error thrown_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Exit::done, Seen::here, ""};
}

TEST(Error, TextConcatenatesTheParts) {
  EXPECT_EQ(text("batch.global = ", 100, " is ", std::string("not"), ' ', std::string_view("ours"), ": ", 0.5),
            "batch.global = 100 is not ours: 0.5");
}

TEST(Error, BadInputEndsWithTwoAndIsPrintedOnce) {
  const Error error = thrown_by([] { bad_input("zero.stage = ", 4, ": no such stage"); });
  EXPECT_STREQ(error.what(), "zero.stage = 4: no such stage");
  EXPECT_EQ(error.code(), Exit::bad_input);
  EXPECT_EQ(error.seen(), Seen::everywhere);
}

TEST(Error, AFailureEndsWithOneAndIsPrintedByItsRank) {
  const Error error = thrown_by([] { fail("disk ", 3, " is full"); });
  EXPECT_STREQ(error.what(), "disk 3 is full");
  EXPECT_EQ(error.code(), Exit::failed);
  EXPECT_EQ(error.seen(), Seen::here);
}

TEST(Error, RequireFailsOnlyIfNot) {
  EXPECT_NO_THROW(require(true, "fine"));
  const Error error = thrown_by([] { require(false, "2 of ", 3); });
  EXPECT_STREQ(error.what(), "2 of 3");
  EXPECT_EQ(error.code(), Exit::failed);
}

TEST(Error, RequireInputIsTheUsersFaultOnlyIfNot) {
  EXPECT_NO_THROW(require_input(true, "fine"));
  const Error error = thrown_by([] { require_input(false, "2 of ", 3); });
  EXPECT_STREQ(error.what(), "2 of 3");
  EXPECT_EQ(error.code(), Exit::bad_input);
}

// Batch scripts check these numbers.
TEST(Error, ExitCodes) {
  EXPECT_EQ(static_cast<int>(Exit::done), 0);
  EXPECT_EQ(static_cast<int>(Exit::failed), 1);
  EXPECT_EQ(static_cast<int>(Exit::bad_input), 2);
  EXPECT_EQ(static_cast<int>(Exit::requeue), 75);
}

}  // namespace of_error_test
}  // namespace shoal
