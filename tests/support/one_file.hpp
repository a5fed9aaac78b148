// SPDX-License-Identifier: Apache-2.0
// A program has the tests of several files, and a CTest entry runs those of one: `zero_unit_tests --file=partition_test`. Of
// these, --gtest_filter may choose some.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "shoal/base/error.hpp"

namespace shoal::test {

/// Whether the name has the form of gtest's pattern: `*` stands for any text, `?` for a character.
inline bool matches(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*') {
    return matches(name, pattern.substr(1)) || (!name.empty() && matches(name.substr(1), pattern));
  }
  return !name.empty() && (pattern.front() == '?' || pattern.front() == name.front()) &&
         matches(name.substr(1), pattern.substr(1));
}

/// Whether the name has the form of one of these patterns, which colons separate.
inline bool matches_any(std::string_view name, std::string_view patterns) {
  for (;;) {
    const std::size_t end = patterns.find(':');
    if (matches(name, patterns.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
    patterns.remove_prefix(end + 1);
  }
}

/// The name of a source file without folder and ending.
inline std::string stem(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);  // npos + 1 is 0
  return std::string(path.substr(0, path.find('.')));
}

/// Sets gtest's filter to the tests of the file that --file=NAME names, if one does. A suite with tests in two files is an
/// error: gtest allows it for some kinds of fixtures, but a filter for the suite would mean both.
inline void choose_file(int argc, char** argv) {
  constexpr std::string_view option = "--file=";
  std::string file;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with(option)) file = std::string_view(argv[i]).substr(option.size());
  }
  if (file.empty()) return;
  std::string& filter = testing::GTEST_FLAG(filter);
  const std::size_t dash = filter.find('-');
  const std::string wanted = dash == 0 ? "*" : filter.substr(0, dash);
  const std::string unwanted = dash == std::string::npos ? "" : filter.substr(dash);
  std::string chosen;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    std::set<std::string> files;
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::string name = text(suite.name(), ".", test.name());
      files.insert(stem(test.file()));
      if (stem(test.file()) == file && matches_any(name, wanted)) chosen += (chosen.empty() ? "" : ":") + name;
    }
    require(files.size() <= 1 || !files.contains(file), "the tests of suite ", suite.name(),
            " stand in several files, one is ", *files.begin(), ", another ", files.empty() ? "" : *files.rbegin(),
            ": rename one");
  }
  require(!chosen.empty(), "no test of ", file, ".cpp is in this program", wanted == "*" ? "" : " and matches the filter");
  filter = chosen + unwanted;
}

}  // namespace shoal::test
