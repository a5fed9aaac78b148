// SPDX-License-Identifier: Apache-2.0
// A file that was caught in the middle of a flush is read again; a damaged one is refused.
#include "shoal/io/live_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "io/files/files.hpp"
#include "io/hdf5/seal.hpp"
#include "io/scratch.hpp"

namespace shoal::test {
namespace of_live_file_test {

constexpr const char* signature = "\x89HDF\r\n\x1a\n";

class LiveFile : public testing::Test {
 protected:
  LiveFile() { write_all(file, std::string(signature) + std::string(600, 'a')); }

  void append() { std::ofstream(file, std::ios::binary | std::ios::app) << "more"; }
  /// The error of a read that succeeds when the file has grown to `bytes`.
  std::string error_of_read(std::uintmax_t bytes) {
    return error_of([&] {
      io::read_live(
          file,
          [&] {
            ++reads;
            require_input(std::filesystem::file_size(file) >= bytes, "half");
          },
          limits);
    });
  }

  Scratch scratch;
  std::filesystem::path file = scratch.path() / "trace.h5";
  int reads = 0, waits = 0;
  io::LiveLimits limits{.unchanged_s = 5, .longest_s = 5, .wait = [this] {
                          ++waits;
                          append();
                        }};
};

TEST_F(LiveFile, IsReadAgainWhenItHasChanged) {
  EXPECT_EQ(error_of_read(0), "");
  EXPECT_EQ(reads, 1);
  EXPECT_EQ(error_of_read(std::filesystem::file_size(file) + 8), "");
  EXPECT_EQ(reads, 1 + 3);
  EXPECT_EQ(waits, 2);
}

TEST_F(LiveFile, ThatDoesNotChangeIsDamaged) {
  limits = {.unchanged_s = 0, .longest_s = 5, .wait = {}};
  EXPECT_EQ(error_of_read(10000), "half; the file does not change, so no run is writing it");
  EXPECT_EQ(reads, 1);
}

TEST_F(LiveFile, ThatGoesOnChangingIsNotReadForever) {
  limits.longest_s = 0;
  EXPECT_EQ(error_of_read(10000), "half; a run goes on writing the file: try again");
}

TEST_F(LiveFile, ThatNoRunCanBeWritingIsReadOnce) {
  const auto read_once = [&](const std::string& why) {
    reads = 0;
    EXPECT_EQ(error_of_read(10000), "half") << why;
    EXPECT_EQ(reads, 1) << why;
  };
  io::seal(file, {});
  read_once("it is sealed");
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - std::chrono::minutes(2));
  read_once("it is old");
  write_all(file, "text");
  read_once("it is no HDF5 file");
  std::filesystem::remove(file);
  error_of([&] {
    io::read_live(
        file,
        [&] {
          ++reads;
          bad_input("absent");
        },
        limits);
  });
  EXPECT_EQ(reads, 2);
}

TEST_F(LiveFile, ThatTheSystemCannotReadIsReadOnce) {
  EXPECT_THROW(io::read_live(
                   file,
                   [&] {
                     ++reads;
                     throw io::SystemError("stale");
                   },
                   limits),
               io::SystemError);
  EXPECT_EQ(reads, 1);
}

}  // namespace of_live_file_test
}  // namespace shoal::test
