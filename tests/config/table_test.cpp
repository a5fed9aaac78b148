// SPDX-License-Identifier: Apache-2.0
#include "shoal/config/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace shoal::config {
namespace of_table_test {

TEST(Table, NamesAreUniqueAndHelpIsGiven) {
  std::set<std::string> names;
  for (const Row& row : table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.help.what.empty()) << row.name;
    EXPECT_NE(row.name.find('.'), std::string::npos) << row.name;
  }
}

TEST(Table, SectionsAreTheVocabularys) {
  EXPECT_THAT(sections(), testing::ElementsAre("model", "data", "batch", "train", "optimizer", "schedule", "zero", "comm",
                                               "sync", "pipeline", "activation", "offload", "nvme", "memory", "checkpoint",
                                               "trace", "output", "fault"));
}

TEST(Table, DefaultsAreAllowedAndBuilt) {
  const Options defaults;
  for (const Row& row : table()) {
    EXPECT_TRUE(read(default_text(row), row.allowed, row.member.get(defaults), row.name).value) << row.name;
    EXPECT_TRUE(is_built(row, defaults)) << row.name;
  }
}

TEST(Table, EveryRowReachesItsOwnMember) {
  const auto other = [](const Value& value, const Allowed& allowed) -> Value {
    if (allowed.count) return "2";
    if (const auto* const flag = std::get_if<bool>(&value)) return !*flag;
    if (const auto* const count = std::get_if<std::uint64_t>(&value)) return *count + 1;
    if (const auto* const number = std::get_if<std::int64_t>(&value)) return *number + 1;
    if (const auto* const real = std::get_if<double>(&value)) return *real + 1;
    const auto& text = std::get<std::string>(value);
    if (allowed.choices.size() > 1) return allowed.choices[allowed.choices[0] == text ? 1 : 0];
    return text + "x";
  };
  for (const Row& row : table()) {
    Options options;
    row.member.set(options, other(row.member.get(options), row.allowed));
    const auto before = list(Options()), after = list(options);
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i].second != after[i].second, before[i].first == row.name)
          << row.name << " changes " << before[i].first;
    }
    EXPECT_THAT(changed(options), testing::ElementsAre(testing::Pair(row.name, value_text(row, options))));
  }
  EXPECT_THAT(changed(Options()), testing::IsEmpty());
}

TEST(Table, OptionsThatDependNameValuesThatExist) {
  for (const Row& row : table()) {
    std::vector<UsedBy> users = row.used_by_any;
    if (!row.used_by.option.empty()) users.push_back(row.used_by);
    for (const UsedBy& by : users) {
      const Row* const decides = find(by.option);
      ASSERT_NE(decides, nullptr) << row.name;
      const bool is_switch = std::holds_alternative<bool>(decides->member.get(Options()));
      const auto choices = is_switch ? std::vector<std::string>{"true", "false"} : decides->allowed.choices;
      for (const std::string& value : by.values)
        EXPECT_TRUE(value == decides->allowed.word || testing::Value(choices, testing::Contains(value))) << row.name;
    }
    EXPECT_TRUE(row.used_by.option.empty() || row.used_by_any.empty()) << row.name;
  }
}

TEST(Table, AnOptionIsUsedIfThoseThatDecideAreThemselvesUsed) {
  const Row &block = *find("zero.quant_block"), &rounding = *find("zero.quant_rounding");
  Options options;
  EXPECT_TRUE(is_used(*find("train.steps"), options));
  EXPECT_FALSE(is_used(block, options));
  options.sync.average_dtype = sync::AverageType::int8;
  EXPECT_FALSE(is_used(block, options)) << "gradients are summed at every step";
  options.sync.kind = sync::SyncKind::localsgd;
  EXPECT_TRUE(is_used(block, options));
  EXPECT_FALSE(is_used(rounding, options));
  options = {};
  options.zero.qgz = 4;
  EXPECT_FALSE(is_used(block, options)) << "stage 0";
  options.zero.stage = 2;
  EXPECT_TRUE(is_used(block, options));
  EXPECT_TRUE(is_used(rounding, options));
}

TEST(Table, SuggestsTheSameKeyOfAnotherSectionFirst) {
  EXPECT_EQ(unknown_option("train.lr"), "unknown option; did you mean optimizer.lr?");
  EXPECT_EQ(unknown_option("steps"), "unknown option; did you mean train.steps?");
  EXPECT_EQ(unknown_option("zero.stag"), "unknown option; did you mean zero.stage?");
  EXPECT_EQ(unknown_option("batch.elephants"), "unknown option; section batch has micro, global");
  EXPECT_THAT(unknown_option("elephants"), testing::StartsWith("unknown option; options are named section.key"));
}

}  // namespace of_table_test
}  // namespace shoal::config
