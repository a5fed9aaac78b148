// SPDX-License-Identifier: Apache-2.0
// print() and the deck reader are inverse to each other, whatever the values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "shoal/config/deck.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {
namespace of_round_trip_test {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t limit) { return std::uniform_int_distribution<std::uint64_t>(0, limit - 1)(random_); }

  /// Returns a random value that the row allows, of the same type as `type`.
  Value value(const Row& row, const Value& type) {
    const Allowed& allowed = row.allowed;
    if (!allowed.choices.empty())
      return *read(allowed.choices[below(allowed.choices.size())], allowed, type, row.name).value;
    if (std::holds_alternative<bool>(type)) return below(2) == 1;
    if (std::holds_alternative<std::string>(type)) return string(allowed.empty ? 0 : 1);
    if (!allowed.word.empty() && below(4) == 0) return *read(allowed.word, allowed, type, row.name).value;
    if (std::holds_alternative<double>(type)) return real(allowed);
    const auto least = static_cast<std::uint64_t>(std::max(0.0, allowed.low));
    const std::uint64_t whole =
        std::isfinite(allowed.high) ? least + below(static_cast<std::uint64_t>(allowed.high) - least + 1) : random_();
    return std::holds_alternative<std::int64_t>(type) ? Value(static_cast<std::int64_t>(whole)) : Value(whole);
  }

 private:
  /// Returns a random number between the bounds: any bit pattern, or one between 0 and 1.
  double real(const Allowed& allowed) {
    for (;;) {
      const auto value =
          below(2) == 0 ? std::bit_cast<double>(random_()) : std::uniform_real_distribution<double>(0, 1)(random_);
      const bool inside = value > allowed.low && value < allowed.high && std::isfinite(value);
      if (inside) return value;
    }
  }
  /// Returns a random string. Half of its characters have a meaning in decks, the others are any bytes.
  std::string string(std::size_t least) {
    constexpr std::string_view awkward = " \t#\"\\=[];,\n\r'%$";
    std::string text;
    for (std::size_t size = least + below(12); text.size() < size;) {
      text += below(2) == 0 ? awkward[below(awkward.size())] : static_cast<char>(below(256));
    }
    return text;
  }

  std::mt19937_64 random_;
};

TEST(RoundTrip, PrintedOptionsReadBackAndPrintTheSame) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    Draw draw(seed);
    Options options;
    for (const Row& row : table()) {
      if (draw.below(2) == 1) row.member.set(options, draw.value(row, row.member.get(options)));
    }
    const std::string deck = print(options);
    const Deck again = parse_deck_text(deck, "printed.cfg");
    ASSERT_THAT(again.problems, testing::IsEmpty()) << "seed " << seed << "\n" << deck;
    for (const Row& row : table())
      ASSERT_EQ(row.member.get(options), row.member.get(again.options)) << row.name << ", seed " << seed;
    ASSERT_EQ(print(again.options), deck) << "seed " << seed;
  }
}

TEST(RoundTrip, TheDeckMarksWhatWasChanged) {
  Options options;
  options.optimizer.lr = 3e-4;
  options.data.source = "a # b";
  const std::string deck = print(options);
  EXPECT_THAT(deck, testing::HasSubstr("\nlr                 = 3e-4  # default 0.001\n"));
  EXPECT_THAT(deck, testing::HasSubstr("\nsource       = \"a # b\"  # default synthetic\n"));
  EXPECT_THAT(deck, testing::HasSubstr("\nvocab_size         = auto\n"));
  EXPECT_THAT(deck, testing::StartsWith("[model]\nkind               = gpt\n"));
  EXPECT_THAT(deck, testing::Not(testing::HasSubstr("tile_linear"))) << "not built, and not set";
  EXPECT_EQ(list(options).size(), table().size());
}

}  // namespace of_round_trip_test
}  // namespace shoal::config
