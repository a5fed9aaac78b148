// SPDX-License-Identifier: Apache-2.0
// A full disk: a tmpfs of 4 MB. Needs permission to mount.
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <cstdio>

#include "io/scratch.hpp"
#include "io/tensors.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/io/background_save.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/safetensors.hpp"
#include "shoal/io/trace_file.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace of_full_disk_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FullDisk : public testing::Test {
 protected:
  FullDisk() : scratch_(&world().all()) {
    std::int64_t mounted = 1;
    if (scratch_.owner()) mounted = ::mount("tmpfs", scratch_.path().c_str(), "tmpfs", 0, "size=4m") == 0 ? 1 : 0;
    world().all().all_reduce(Span<std::int64_t>(&mounted, 1), comm::Reduce::min).wait();
    mounted_ = mounted != 0;
  }
  ~FullDisk() override {
    world().all().barrier().wait();
    if (scratch_.owner() && mounted_) ::umount2(scratch_.path().c_str(), MNT_DETACH);
  }
  void SetUp() override {
    if (mounted_) return;
    GTEST_SKIP() << "a small tmpfs cannot be mounted here; what a full disk does is not tested";
  }

  /// Fills the disk except for `left` bytes.
  void fill(std::uint64_t left) const {
    if (scratch_.owner()) {
      struct statvfs disk {};
      ::statvfs(scratch_.path().c_str(), &disk);
      const std::uint64_t free = disk.f_bavail * disk.f_frsize;
      if (free > left) write_all(scratch_.path() / "filler", std::string(free - left, 'x'));
    }
    world().all().barrier().wait();
  }

  Scratch scratch_;
  bool mounted_ = false;
};

Tensors two_megabytes(bool fill) {
  return cut({{"/parameters/a", {512, 1024}}}, world().all().rank(), world().all().size(), fill);
}

TEST_F(FullDisk, ACheckpointThatDoesNotFitIsRefusedOnAllRanksAndTheLastOneSurvives) {
  const fs::path first = scratch_.path() / "step_00000001.h5", second = scratch_.path() / "step_00000002.h5";
  io::save_checkpoint(world(), first, {1, "", {}}, two_megabytes(true).slices, io::IoMode::automatic);
  const std::string message = error_of(
      [&] {
        io::save_checkpoint(world(), second, {2, "", {}}, two_megabytes(true).slices, io::IoMode::automatic);
      },
      Exit::failed);
  EXPECT_THAT(message,
              AllOf(HasSubstr(second.string()), HasSubstr("needs 2."), HasSubstr("MB, the disk has"), HasSubstr("free")));
  EXPECT_EQ(io::list_checkpoints(scratch_.path()), std::vector{first});
  EXPECT_FALSE(fs::exists(second.string() + ".partial"));
  Tensors target = two_megabytes(false);
  EXPECT_EQ(io::load_checkpoint(world(), first, target.slices).step, 1);
}

TEST_F(FullDisk, ACheckpointInTheBackgroundThatDoesNotFitIsRefusedBeforeTheTrainingGoesOn) {
  const fs::path first = scratch_.path() / "step_00000001.h5", second = scratch_.path() / "step_00000002.h5";
  const Tensors tensors = two_megabytes(true);
  std::vector<float> copy(io::BackgroundSave::copy_elements(tensors.slices));
  io::BackgroundSave save(world(), copy);
  save.start(first, {1, "", {}}, tensors.slices);
  const std::string message = error_of([&] { save.start(second, {2, "", {}}, tensors.slices); }, Exit::failed);
  EXPECT_THAT(message,
              AllOf(HasSubstr(second.string()), HasSubstr("needs 2."), HasSubstr("MB, the disk has"), HasSubstr("free")));
  EXPECT_FALSE(save.under_way());
  EXPECT_EQ(io::list_checkpoints(scratch_.path()), std::vector{first});
  EXPECT_FALSE(fs::exists(second.string() + ".partial"));
  Tensors target = two_megabytes(false);
  EXPECT_EQ(io::load_checkpoint(world(), first, target.slices).step, 1);
}

TEST_F(FullDisk, ATraceStopsGrowingAndTheRunGoesOn) {
  const fs::path file = scratch_.path() / "trace.h5";
  trace::start(trace::Level::steps, 100'000);
  {
    io::TraceFile out(world(), file, {});
    const auto flush_many = [&] {
      // Numbers that cannot be compressed.
      for (std::uint64_t i = 0; i < 60'000; ++i) trace::counter("many", i * 0x9E3779B97F4A7C15U);
      out.flush();
    };
    flush_many();
    fill(100'000);
    testing::internal::CaptureStderr();
    flush_many();
    flush_many();
    out.close();
    const std::string said = testing::internal::GetCapturedStderr();
    if (scratch_.owner()) {
      EXPECT_THAT(said, AllOf(HasSubstr(file.string()), HasSubstr("needs"), HasSubstr("the run continues")));
      EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    } else {
      EXPECT_EQ(said, "");
    }
  }
  trace::stop();
  const io::TraceContents contents = io::describe_trace(file);
  EXPECT_EQ(contents.flushes, 1U);
  const unsigned ranks = static_cast<unsigned>(world().all().size()), clock_readings = ranks > 1 ? 4 : 0;
  EXPECT_EQ(contents.events, (60'000U + clock_readings) * ranks);
  EXPECT_FALSE(contents.complete);
}

TEST_F(FullDisk, ATraceThatCannotBeginIsAnError) {
  fill(50'000);
  const fs::path file = scratch_.path() / "trace.h5";
  EXPECT_THAT(error_of([&] { io::TraceFile(world(), file, {}); }, Exit::failed), HasSubstr("needs"));
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(FullDisk, WeightsThatDoNotFitLeaveNothing) {
  if (!scratch_.owner()) return;
  const fs::path file = scratch_.path() / "model.safetensors";
  EXPECT_THAT(error_of([&] { io::SafetensorsWriter(file, {{"a", {2'000'000}}}); }, Exit::failed), HasSubstr("needs 8.0 MB"));
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

}  // namespace of_full_disk_test
}  // namespace shoal::test
