// SPDX-License-Identifier: Apache-2.0
#include "shoal/data/vocabulary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shoal/base/error.hpp"

namespace of_vocabulary_test {

using shoal::data::decode;
using shoal::data::encode;
using shoal::data::Vocabulary;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Vocabulary, BytesAreTheirOwnIds) {
  const Vocabulary bytes = shoal::data::byte_vocabulary();
  ASSERT_EQ(bytes.size(), 256U);
  const std::string text("a\0\xFF\n", 4);
  const std::vector<std::int32_t> ids = encode(bytes, text);
  EXPECT_THAT(ids, ElementsAre('a', 0, 255, '\n'));
  EXPECT_EQ(decode(bytes, ids), text);
}

TEST(Vocabulary, TheLongestTokenIsTaken) {
  const Vocabulary vocabulary{"a", "b", "ab", "", "abc", "é"};
  EXPECT_THAT(encode(vocabulary, "ababcaé"), ElementsAre(2, 4, 0, 5));
  EXPECT_TRUE(encode(vocabulary, "").empty());
}

TEST(Vocabulary, WhatHasNoTokenIsNamed) {
  EXPECT_THAT([] { encode({"a", "b"}, "abxa"); }, ThrowsMessage<shoal::Error>(HasSubstr("at byte 2: \"xa\"")));
}

TEST(Vocabulary, IdsWithoutBytesDecodeToTheReplacementCharacter) {
  const std::vector<std::int32_t> ids{0, 5, -1, 1};
  EXPECT_EQ(decode({"a", "b"}, ids), "a\uFFFD\uFFFDb");
}

}  // namespace of_vocabulary_test
