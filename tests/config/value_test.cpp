// SPDX-License-Identifier: Apache-2.0
#include "shoal/config/value.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "shoal/config/wall_time.hpp"

namespace shoal::config {
namespace of_value_test {

const Value whole = std::uint64_t{0}, with_sign = std::int64_t{0}, real = 0.0, flag = false, words = std::string();

std::string problem(std::string_view text, const Allowed& allowed, const Value& type) {
  return read(text, allowed, type, "section.key").problem;
}

TEST(Value, WholeNumbersAreTheWholeText) {
  EXPECT_EQ(read("64", any(), whole, "k").value, Value(std::uint64_t{64}));
  EXPECT_EQ(read("-3", any(), with_sign, "k").value, Value(std::int64_t{-3}));
  EXPECT_EQ(read("18446744073709551615", any(), whole, "k").value, Value(std::numeric_limits<std::uint64_t>::max()));
  for (const char* const text : {"64x", "x64", "6 4", "0x40", "", " 64", "+64", "6,4", "64."}) {
    EXPECT_FALSE(read(text, any(), whole, "k").value) << text;
  }
  EXPECT_EQ(problem("-1", any(), whole), "negative");
  EXPECT_EQ(problem("18446744073709551616", any(), whole), "too large");
}

TEST(Value, OtherWritingsOfWholeNumbersGetAHint) {
  EXPECT_EQ(problem("1e3", any(), whole), "not written as a whole number; write 1000");
  EXPECT_EQ(problem("2.0", any(), with_sign), "not written as a whole number; write 2");
  EXPECT_EQ(problem("2.5", any(), whole), "not a whole number");
  EXPECT_EQ(problem("1e300", any(), whole), "not a whole number");
}

TEST(Value, RealNumbersAreFinite) {
  EXPECT_EQ(read("3e-4", any(), real, "k").value, Value(3e-4));
  EXPECT_EQ(read("1", any(), real, "k").value, Value(1.0));
  EXPECT_EQ(problem("inf", any(), real), "not a finite number");
  EXPECT_EQ(problem("nan", any(), real), "not a finite number");
  EXPECT_EQ(problem("1e999", any(), real), "too large or too small");
  EXPECT_EQ(problem("1.0f", any(), real), "not a number");
}

TEST(Value, BoundsAreInOrOut) {
  EXPECT_TRUE(read("0", from_below(0, 1), real, "k").value);
  EXPECT_FALSE(read("1", from_below(0, 1), real, "k").value);
  EXPECT_TRUE(read("1", between(0, 1), real, "k").value);
  EXPECT_FALSE(read("0", above(0), real, "k").value);
  EXPECT_FALSE(read("0", open(0, 1), real, "k").value);
  EXPECT_FALSE(read("0", at_least(1), whole, "k").value);
}

TEST(Value, WallTimesAreSeconds) {
  EXPECT_EQ(wall_time("00:00:01"), 1U);
  EXPECT_EQ(wall_time("4:53"), 293U) << "squeue -o %L";
  EXPECT_EQ(wall_time("100:00:00"), 360000U) << "qstat -f";
  EXPECT_EQ(wall_time("2-03:04:05"), 2 * 86400U + 3 * 3600U + 4 * 60U + 5U);
  for (const char* const text : {"", "60", ":30", "1:", "1:2", "1:60", "01:60:00", "1:2:3:4", "1-24:00:00", "1-12:00",
                                 "-1:00:00", " 1:00:00", "1:00:00 ", "1e3:00", "12345678901:00:00"}) {
    EXPECT_EQ(wall_time(text), std::nullopt) << text;
  }
  for (const std::uint64_t seconds : {0U, 59U, 3600U, 360000U}) EXPECT_EQ(wall_time(wall_time_text(seconds)), seconds);
  const Allowed allowed = at_least(0).or_wall_time();
  EXPECT_EQ(read("1:30", allowed, real, "k").value, Value(90.0));
  EXPECT_EQ(read("90", allowed, real, "k").value, Value(90.0));
  EXPECT_FALSE(read("1:30", at_least(0), real, "k").value);
  EXPECT_EQ(describe(allowed, real), "numbers of at least 0, or [D-]HH:MM:SS");
}

TEST(Value, WordsStandForNumbers) {
  const Allowed allowed = at_least(1).or_word("auto");
  EXPECT_EQ(read("auto", allowed, whole, "k").value, Value(std::uint64_t{0}));
  EXPECT_EQ(read("0", allowed, whole, "k").value, Value(std::uint64_t{0})) << "the number behind the word";
  EXPECT_EQ(print(Value(std::uint64_t{0}), allowed), "auto");
  EXPECT_EQ(read("auto", at_least(0).or_word("auto", -1), real, "k").value, Value(-1.0));
  EXPECT_EQ(print(Value(-1.0), at_least(0).or_word("auto", -1)), "auto");
}

TEST(Value, Booleans) {
  for (const char* const text : {"true", "on", "Yes", "1", "TRUE"})
    EXPECT_EQ(read(text, any(), flag, "k").value, Value(true)) << text;
  for (const char* const text : {"false", "off", "No", "0"})
    EXPECT_EQ(read(text, any(), flag, "k").value, Value(false)) << text;
  for (const char* const text : {"2", "tru", "", "t"}) EXPECT_FALSE(read(text, any(), flag, "k").value) << text;
}

TEST(Value, ChoicesEndInAnErrorNotInTheLastElse) {
  const Allowed kinds = one_of({"adamw", "sgd"});
  EXPECT_TRUE(read("sgd", kinds, words, "k").value);
  EXPECT_EQ(problem("adam", kinds, words), "no such key; did you mean adamw?");
  EXPECT_EQ(problem("lion", kinds, words), "no such key");
  EXPECT_EQ(problem("4", one_of({"0", "1"}), with_sign), "no such key");
  EXPECT_TRUE(read("2", one_of({"off"}).or_count(), words, "k").value);
  EXPECT_FALSE(read("0", one_of({"off"}).or_count(), words, "k").value);
}

TEST(Value, DescribesWhatIsAllowed) {
  EXPECT_EQ(describe(at_least(1), whole), "whole numbers of at least 1");
  EXPECT_EQ(describe(between(1, 8).or_word("auto"), whole), "auto, or whole numbers from 1 to 8");
  EXPECT_EQ(describe(open(0, 1), real), "numbers above 0 and below 1");
  EXPECT_EQ(describe(from_below(0, 1), real), "numbers of at least 0 and below 1");
  EXPECT_EQ(describe(any(), whole), "whole numbers from 0 to 2^64 - 1");
  EXPECT_EQ(describe(one_of({"a", "b"}), words), "a, b");
  EXPECT_EQ(describe(any(), flag), "true, false");
}

TEST(Value, NumbersPrintShortAndReadBackExactly) {
  EXPECT_EQ(print(Value(0.1), {}), "0.1");
  EXPECT_EQ(print(Value(1e-8), {}), "1e-8");
  EXPECT_EQ(print(Value(25.0), {}), "25");
  EXPECT_EQ(print(Value(1e-10), {}), "1e-10");
  EXPECT_EQ(print(Value(1e100), {}), "1e+100");
  for (const double value : {0.1 + 0.2, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, 1e23}) {
    EXPECT_EQ(read(print(Value(value), {}), any(), real, "k").value, Value(value));
  }
}

TEST(Value, TextIsQuotedOnlyWhereItMustBe) {
  EXPECT_EQ(quoted_if_needed("a b#c.txt"), "a b#c.txt");
  EXPECT_EQ(quoted_if_needed("a #b"), "\"a #b\"");
  EXPECT_EQ(quoted_if_needed(""), "\"\"");
  EXPECT_EQ(quoted_if_needed(" a"), "\" a\"");
  EXPECT_EQ(quoted_if_needed("\"a\\"), "\"\\\"a\\\\\"");
  EXPECT_EQ(quoted_if_needed("a\nb\x01"), "\"a\\nb\\x01\"");
}

TEST(Nearest, CountsOneForASwap) {
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("stage", "stag"), 1U);
  EXPECT_EQ(edit_distance("steps", "stpes"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("ca", "abc"), 3U) << "optimal string alignment: no edit within a swapped pair";
}

TEST(Nearest, SaysNothingWhereNothingIsNear) {
  const std::vector<std::string> names = {"train.steps", "train.seed", "zero.stage"};
  EXPECT_EQ(nearest("train.stpes", names), "train.steps");
  EXPECT_EQ(nearest("ZERO.STAGE", names), "zero.stage");
  EXPECT_EQ(nearest("model.width", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest(std::string(1000000, 'x'), names), "");
}

}  // namespace of_value_test
}  // namespace shoal::config
