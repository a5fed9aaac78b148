// SPDX-License-Identifier: Apache-2.0
// The log has what a process prints, and no state of its file stops the process.
#include "shoal/base/output.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "shoal/base/heartbeat.hpp"

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

/// It writes far more than a pipe holds. A rank that does not beat for comm.timeout is taken for dead.
TEST_F(Output, WaitsForASlowReaderAndShowsThatItLives) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const int before = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  close(ends[1]);
  const std::string lines(1'000'000, 'x');
  std::string read_so_far;
  std::thread reader([&] {
    const int holds = fcntl(ends[0], F_GETPIPE_SZ);
    for (int waiting = 0; waiting < holds; ioctl(ends[0], FIONREAD, &waiting)) std::this_thread::yield();
    std::int64_t silence = 0;  // it falls at a beat
    for (std::int64_t now = heartbeat::silence_ns(); now >= silence; now = heartbeat::silence_ns()) {
      silence = now;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::array<char, 4096> part{};
    for (ssize_t got = 1; got > 0;) {
      got = read(ends[0], part.data(), part.size());
      if (got > 0) read_so_far.append(part.data(), static_cast<std::size_t>(got));
    }
  });
  output::print(lines);
  dup2(before, STDOUT_FILENO);  // closes the pipe
  close(before);
  reader.join();
  close(ends[0]);
  EXPECT_EQ(printed().first, "");
  EXPECT_EQ(read_so_far, lines);
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
