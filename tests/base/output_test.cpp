// SPDX-License-Identifier: Apache-2.0
// The log has what a process prints, and no state of its file stops the process.
#include "shoal/base/output.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace shoal {
namespace of_output_test {

namespace fs = std::filesystem;

class Output : public testing::Test {
 protected:
  Output() {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    std::ofstream(file_) << "# a log\n";
  }
  ~Output() override {
    output::log_to("");
    fs::remove(file_);
  }

  std::string log() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Standard output and standard error.
  static std::pair<std::string, std::string> printed() {
    std::string out = testing::internal::GetCapturedStdout();
    return {std::move(out), testing::internal::GetCapturedStderr()};
  }

  fs::path file_ = fs::temp_directory_path() / ("shoal-output-test." + std::to_string(getpid()));
};

TEST_F(Output, HasWhatWasSaidBeforeThereWasALog) {
  output::print("before it is kept\n");
  output::keep();
  output::print("one\n");
  output::complain("shoal: two\n");
  output::log_to(file_);
  output::draw("\rdrawn over");
  output::print("three\n");
  output::complain("shoal: four\n");
  EXPECT_EQ(log(), "# a log\none\nshoal: two\nthree\nshoal: four\n");
  EXPECT_EQ(printed(), std::make_pair(std::string("before it is kept\none\n\rdrawn overthree\n"),
                                      std::string("shoal: two\nshoal: four\n")));
}

TEST_F(Output, OfAProcessThatSaysNothingOpensNoFile) {
  output::log_to("/no/such/folder/log.txt");
  const auto [out, errors] = printed();
  EXPECT_EQ(out + errors, "");
}

TEST_F(Output, ToAFullDiskIsSaidOnceAndGoesOn) {
  output::keep();
  output::print("one\n");
  output::log_to("/dev/full");
  output::print("two\n");
  output::complain("shoal: three\n");
  const auto [out, errors] = printed();
  EXPECT_EQ(out, "one\ntwo\n");
  EXPECT_EQ(errors,
            "shoal: warning: /dev/full: cannot be written: No space left on device; the run goes on without a log there\n"
            "shoal: three\n");
}

/// Nobody reads the pipe, so that open() does not return.
TEST_F(Output, ToAFileSystemThatHangsHoldsNobodyUp) {
  std::signal(SIGPIPE, SIG_IGN);  // the thread may write when the reader has gone
  fs::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  output::log_to(file_);
  output::complain("shoal: rank 1 hangs\n");
  EXPECT_EQ(printed().second, "shoal: rank 1 hangs\n");
  std::ifstream reader(file_);  // ends the thread that waits
}

}  // namespace of_output_test
}  // namespace shoal
