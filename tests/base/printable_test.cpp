// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/printable.hpp"

#include <gtest/gtest.h>

namespace of_printable_test {

using shoal::printable;

TEST(Printable, KeepsTextInAnyScript) {
  for (const char* const text : {"", "plain", "größer", "日本語", "\U0001F41F", "a\\b \"c\""}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
  EXPECT_EQ(printable("a\nshoal: all is well\r"), "a\\nshoal: all is well\\x0d");
  EXPECT_EQ(printable("a\tb\nc\x1b", "\t\n"), "a\tb\nc\\x1b");
  EXPECT_EQ(printable(std::string("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(printable("\u009b31m"), "\\u{009b}31m");  // CSI: begins a control sequence, as ESC [ does
  EXPECT_EQ(printable("\u202Eevil\u2066"), "\\u{202e}evil\\u{2066}");
}

TEST(Printable, EscapesInvalidUtf8) {
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");           // ESC in an overlong encoding
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a surrogate pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xe6\x97"), "\\xe6\\x97");
}

}  // namespace of_printable_test
