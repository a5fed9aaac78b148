// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/notation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shoal/base/error.hpp"

namespace shoal {
namespace of_notation_test {

using testing::AllOf;
using testing::HasSubstr;

/// Returns the message of the error that read() throws; empty if it throws none.
template <typename Read>
std::string refusal(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_input);
    return error.what();
  }
  return {};
}

TEST(RankCounts, AreThoseOfTheList) {
  EXPECT_EQ(rank_counts("1"), (std::vector{1}));
  EXPECT_EQ(rank_counts("1,2, 4 ,6"), (std::vector{1, 2, 4, 6}));
  EXPECT_EQ(rank_counts("6,4"), (std::vector{6, 4})) << "in the order of the list";
  EXPECT_EQ(rank_counts("1048576"), (std::vector{1048576}));
}

TEST(RankCounts, DotsDouble) {
  EXPECT_EQ(rank_counts("1,2,4,...,32"), (std::vector{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(rank_counts("3,...,12,100"), (std::vector{3, 6, 12, 100}));
  EXPECT_EQ(rank_counts("1,...,2"), (std::vector{1, 2}));
  EXPECT_EQ(rank_counts("1,...,4,3,...,6"), (std::vector{1, 2, 4, 3, 6}));
}

TEST(RankCounts, RefusesEverythingElse) {
  for (const char* const list :
       {"",    "0",     "-1",    "2,x",         "2,",      ",2",      "2,,4",    "1.5", "4x", "1048577", "99999999999",
        "...", "...,4", "1,...", "1,...,...,4", "1,...,3", "4,...,4", "8,...,4", "1 2", "+2"}) {
    EXPECT_THAT(refusal([&] { rank_counts(list); }),
                AllOf(HasSubstr(std::string("--ranks ") + list + ": "), HasSubstr("; allowed: ")))
        << '"' << list << '"';
  }
}

TEST(Bytes, HaveUnits) {
  EXPECT_EQ(parse_bytes("24GiB", "--memory"), std::size_t{24} << 30U);
  EXPECT_EQ(parse_bytes(" 80 GB ", "--memory"), 80'000'000'000U);
  EXPECT_EQ(parse_bytes("512MiB", "--memory"), std::size_t{512} << 20U);
  EXPECT_EQ(parse_bytes("1.5kB", "--memory"), 1500U);
  EXPECT_EQ(parse_bytes("1B", "--memory"), 1U);
  EXPECT_EQ(parse_bytes("1TiB", "--memory"), std::size_t{1} << 40U);
}

TEST(Bytes, RefusesEverythingElse) {
  for (const char* const size : {"", "24", "GiB", "24Gi?", "24 gib", "0GiB", "-1GiB", "nanGiB", "infGiB", "1e30GiB",
                                 "24GiBB", "0.1B", "2,4GiB", "24 G iB", "0x10GiB"}) {
    EXPECT_THAT(refusal([&] { parse_bytes(size, "--memory"); }),
                AllOf(HasSubstr(std::string("--memory ") + size + ": "), HasSubstr("24GiB")))
        << '"' << size << '"';
  }
}

TEST(BytesText, HasThreeDigits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "0.98 KiB");
  EXPECT_EQ(bytes_text(1024), "1.00 KiB");
  EXPECT_EQ(bytes_text(std::size_t{24} << 30U), "24.0 GiB");
  EXPECT_EQ(bytes_text(std::size_t{475} << 20U), "475 MiB");
  EXPECT_EQ(bytes_text(10234), "9.99 KiB");
  EXPECT_EQ(bytes_text(10239), "10.0 KiB") << "9.999 rounded to three digits";
}

}  // namespace of_notation_test
}  // namespace shoal
