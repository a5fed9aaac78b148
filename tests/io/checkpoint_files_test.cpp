// SPDX-License-Identifier: Apache-2.0
// Which checkpoints of a directory are listed, kept, and used to resume.
#include "io/scratch.hpp"
#include "io/tensors.hpp"
#include "shoal/io/checkpoint.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace of_checkpoint_files_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const std::vector<fs::path>& files) {
  std::vector<std::string> result;
  for (const fs::path& file : files) result.push_back(file.filename().string());
  return result;
}

TEST(CheckpointFiles, AreListedByStep) {
  Scratch scratch;
  EXPECT_EQ(io::checkpoint_name(20), "step_00000020.h5");
  for (const char* name : {"step_00000020.h5", "step_00000003.h5", "step_123456789.h5", "step_3.h5", "step_0000000x.h5",
                           "step_00000021.h5.partial", "other.h5"}) {
    write_all(scratch.path() / name, "x");
  }
  EXPECT_THAT(names(io::list_checkpoints(scratch.path())),
              ElementsAre("step_00000003.h5", "step_00000020.h5", "step_123456789.h5"));
  EXPECT_TRUE(io::list_checkpoints(scratch.path() / "absent").empty());
}

/// All checkpoints of a directory, newest first.
std::function<std::vector<fs::path>()> newest_first(const fs::path& directory) {
  return [=] {
    std::vector<fs::path> files = io::list_checkpoints(directory);
    std::reverse(files.begin(), files.end());
    return files;
  };
}

TEST(CheckpointFiles, LatestFallsBackToTheOneBefore) {
  Scratch scratch(&world().all());
  const int rank = world().all().rank(), size = world().all().size();
  const Tensors tensors = cut(small_model(), rank, size, true);
  std::vector<std::string> warnings;
  const auto newest = [&] {
    warnings.clear();
    world().all().barrier().wait();
    Tensors target = cut(small_model(), rank, size, false);
    const auto warn = [&](const std::string& line) { warnings.push_back(line); };
    const auto wanted = [&](const io::CheckpointState&) { return target.slices; };
    const auto loaded = io::load_newest_checkpoint(world(), newest_first(scratch.path()), wanted, {}, warn);
    world().all().barrier().wait();
    if (!loaded) return std::string("none");
    for (const io::TensorSlice& slice : target.slices) {
      for (std::size_t i = 0; i < slice.values.size(); ++i) {
        EXPECT_EQ(slice.values[i], value_at(slice.dataset, slice.range.begin + i)) << slice.dataset << " element " << i;
      }
    }
    EXPECT_EQ(io::checkpoint_name(loaded->state.step), loaded->file.filename());
    return loaded->file.filename().string();
  };
  EXPECT_EQ(newest(), "none");
  for (int step = 1; step <= 3; ++step) {
    io::save_checkpoint(world(), scratch.path() / io::checkpoint_name(step), {step, "", {}}, tensors.slices,
                        io::IoMode::automatic);
  }
  if (scratch.owner()) write_all(scratch.path() / "step_00000004.h5.partial", "what a killed run left");
  EXPECT_EQ(newest(), "step_00000003.h5");
  EXPECT_TRUE(warnings.empty());

  if (scratch.owner()) {
    const fs::path last = scratch.path() / "step_00000003.h5", middle = scratch.path() / "step_00000002.h5";
    write_all(last, read_all(last).substr(0, 5000));
    std::string damaged = read_all(middle);
    damaged[io::describe_checkpoint(middle).datasets[0].offset] ^= 1;
    write_all(middle, damaged);
  }
  EXPECT_EQ(newest(), "step_00000001.h5");
  ASSERT_EQ(warnings.size(), scratch.owner() ? 2U : 0U);  // printed once
  if (scratch.owner()) {
    EXPECT_THAT(warnings[0], HasSubstr("step_00000003.h5"));
    EXPECT_THAT(warnings[1], AllOf(HasSubstr("step_00000002.h5"), HasSubstr("damaged")));
    fs::remove(scratch.path() / "step_00000001.h5");
  }
  EXPECT_THAT(error_of(newest),
              AllOf(HasSubstr("no checkpoint is whole"), HasSubstr("step_00000003.h5"), HasSubstr("step_00000002.h5")));
}

TEST(CheckpointFiles, LatestOfAnotherModelIsAnErrorAndNotPassedOver) {
  Scratch scratch(&world().all());
  const int rank = world().all().rank(), size = world().all().size();
  std::vector<Shape> wider = small_model();
  wider[0].shape = {65, 32};
  for (const auto& [step, model] : {std::pair(1, small_model()), std::pair(2, wider)}) {
    io::save_checkpoint(world(), scratch.path() / io::checkpoint_name(step), {step, "", {}},
                        cut(model, rank, size, true).slices, io::IoMode::automatic);
  }
  Tensors target = cut(small_model(), rank, size, false);
  const auto wanted = [&](const io::CheckpointState&) { return target.slices; };
  EXPECT_THAT(error_of([&] { io::load_newest_checkpoint(world(), newest_first(scratch.path()), wanted); }),
              AllOf(HasSubstr("step_00000002.h5"), HasSubstr("another model")));
}

}  // namespace of_checkpoint_files_test
}  // namespace shoal::test
