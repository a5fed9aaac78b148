// SPDX-License-Identifier: Apache-2.0
#include "config/json/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shoal/base/error.hpp"

namespace shoal::config {
namespace of_json_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> lines_of(const JsonText& json) {
  std::vector<std::string> lines;
  for (const JsonEntry& entry : json.entries) lines.push_back(shoal::text(entry.line, " ", entry.path, " ", entry.value));
  return lines;
}

TEST(Json, KnowsTheLineOfEveryValue) {
  const JsonText json =
      parse_json_text("{\"a\": 1\n,\"b\": {\n \"c\":\n true,\"d\": 2\n},\n\"e\": [3,\n4\n], \"f\": null\n}\n", "x");
  EXPECT_THAT(json.problems, IsEmpty());
  EXPECT_THAT(json.warnings, IsEmpty());
  EXPECT_THAT(lines_of(json), ElementsAre("1 a 1", "2 b ", "4 b.c true", "4 b.d 2", "6 e ", "6 e[0] 3", "7 e[1] 4", "8 f "));
}

TEST(Json, NumbersStayAsWritten) {
  const JsonText json = parse_json_text(R"({"a": 4e5, "b": -3, "c": 1.50, "d": 99999999999999999999})", "x");
  EXPECT_THAT(lines_of(json), ElementsAre("1 a 4e5", "1 b -3", "1 c 1.50", "1 d 99999999999999999999"));
}

TEST(Json, CommentsAndTrailingCommasAreReadOverAloud) {
  const JsonText json =
      parse_json_text("{ // one\n\"a\": [1, 2,], # two\n/* three\n\"x\": 1 */ \"b\": \"// # /* no */\", /**/\n}", "x");
  EXPECT_THAT(json.problems, IsEmpty());
  EXPECT_THAT(lines_of(json), ElementsAre("2 a ", "2 a[0] 1", "2 a[1] 2", "4 b // # /* no */"));
  EXPECT_THAT(json.warnings, ElementsAre(HasSubstr("x:1: ignored: a comment"), HasSubstr("x:2: ignored: a comma"),
                                         HasSubstr("x:2: ignored: a comment"), HasSubstr("x:3: ignored: a comment"),
                                         HasSubstr("x:4: ignored: a comment"), HasSubstr("x:4: ignored: a comma")));
}

TEST(Json, OnlyACommaAfterAValueIsTrailing) {
  for (const char* const text :
       {"{,}", "{\"a\": [,]}", "{\"a\": [1,,]}", "{\"a\":,}", "{\"a\" 1}", "{'a': 1}", "{a: 1}", ""}) {
    const JsonText json = parse_json_text(text, "x");
    EXPECT_THAT(json.problems, ElementsAre(testing::StartsWith("x:1: "))) << text;
  }
}

TEST(Json, EscapedQuotesDoNotEndAString) {
  const JsonText json = parse_json_text(R"({"a": "\"//\\", "b": 1})", "x");
  EXPECT_THAT(lines_of(json), ElementsAre("1 a \"//\\", "1 b 1"));
}

TEST(Json, KeysThatAreNoNamesStandInQuotes) {
  const JsonText json = parse_json_text(R"({"a.b": 1, "": 2, "c\n": 3, "d": {"[0]": 4}})", "x");
  EXPECT_THAT(lines_of(json), ElementsAre("1 \"a.b\" 1", "1 \"\" 2", "1 \"c?\" 3", "1 d ", "1 d.\"[0]\" 4"));
}

TEST(Json, TheSameKeyTwiceIsAProblemInOneObjectOnly) {
  EXPECT_THAT(parse_json_text("{\"a\": {\"k\": 1}, \"b\": {\"k\": 1}}", "x").problems, IsEmpty());
  EXPECT_THAT(parse_json_text("{\"a\": {\"k\": 1,\n\"k\": 1}}", "x").problems,
              ElementsAre("x:2: a.k: given twice, first in line 1"));
}

TEST(Json, DepthAndLengthAreLimited) {
  EXPECT_THAT(parse_json_text("{\"a\":" + std::string(100000, '['), "x").problems, ElementsAre(HasSubstr("16 levels")));
  std::string many = "{\"a\": [0";
  for (int i = 0; i < 20000; ++i) many += ",0";
  EXPECT_THAT(parse_json_text(many + "]}", "x").problems, ElementsAre(HasSubstr("more than 10000 values")));
  EXPECT_THAT(parse_json_text("{\"a\": 1e999}", "x").problems, ElementsAre(HasSubstr("x:1: a: not JSON: number overflow")));
}

TEST(Json, WindowsLineEndsAndAByteOrderMarkAreTolerated) {
  EXPECT_THAT(lines_of(parse_json_text("\xef\xbb\xbf{\r\n\"a\": 1\r\n}\r\n", "x")), ElementsAre("2 a 1"));
}

}  // namespace of_json_test
}  // namespace shoal::config
