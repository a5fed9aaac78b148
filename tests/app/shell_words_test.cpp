// SPDX-License-Identifier: Apache-2.0
// A shell must take what is printed for it as the words that are meant.
#include "app/support/shell_words.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "app/support/command_output.hpp"
#include "shoal/base/printable.hpp"

namespace shoal::app {
namespace of_shell_words_test {

namespace fs = std::filesystem;

constexpr double most_seconds = 30;

/// What bash makes of these words, each in < and >.
std::string read_by_shell(const std::string& words) {
  const CommandOutput output = output_of({"bash", "-c", "printf '<%s>' " + words}, most_seconds);
  EXPECT_EQ(output.problem, "") << words;
  return output.text;
}

TEST(ShellWords, AreReadAsTheText) {
  const std::vector<std::string> texts = {"out/run_1.5,a:b@c%d+e=f",
                                          "",
                                          "my run",
                                          "~",
                                          "$HOME `x` \"q\" \\ !",
                                          "it's; rm -rf *",
                                          "a#b",
                                          "#c",
                                          "täxte",
                                          "line\nend",
                                          "\033]0;evil\a",
                                          "\xE2\x80\xAE'\\turned",
                                          "no UTF-8: \xFF"};
  for (const std::string& text : texts) {
    const std::string word = shell_word(text);
    EXPECT_EQ(read_by_shell(word + " " + word), "<" + text + "><" + text + ">") << word;
    EXPECT_EQ(printable(word), word);
  }
  EXPECT_EQ(shell_word("out/quickstart"), "out/quickstart");
}

TEST(ShellWords, OfPathsAreNeitherOptionsNorAssignments) {
  EXPECT_EQ(path_word("-x/a b"), "'./-x/a b'");
  EXPECT_EQ(path_word("lr=1/replay.sh"), "./lr=1/replay.sh");
  EXPECT_EQ(path_word("out/lr=1"), "out/lr=1");
  EXPECT_EQ(path_word("/a/-b"), "/a/-b");
}

/// As if this program was installed: its folder is PREFIX/bin.
TEST(AnalysisScript, IsNamedOnlyIfItIsThere) {
  EXPECT_FALSE(analysis_script("no_such_script.py"));
  const fs::path share = fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "share", shoal = share / "shoal";
  fs::create_directories(shoal / "analysis");
  std::ofstream(shoal / "analysis/of_test.py") << "pass\n";
  const fs::path here = fs::current_path();
  fs::current_path(fs::temp_directory_path());
  EXPECT_EQ(analysis_script("of_test.py"), shoal / "analysis/of_test.py");
  fs::current_path(shoal);
  EXPECT_EQ(analysis_script("of_test.py"), "analysis/of_test.py");
  fs::current_path(here);
  fs::remove_all(share);
}

}  // namespace of_shell_words_test
}  // namespace shoal::app
