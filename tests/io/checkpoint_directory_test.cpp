// SPDX-License-Identifier: Apache-2.0
// From which checkpoints of a directory a run may resume, and which of them it deletes.
#include "shoal/io/checkpoint_directory.hpp"

#include <sys/resource.h>

#include "io/scratch.hpp"
#include "io/tensors.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace of_checkpoint_directory_test {

namespace fs = std::filesystem;
using io::CheckpointDirectory;
using io::Lineage;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const Lineage a = {"aaaa", "2025-01-02T03:04:05Z", {}};
const Lineage b = {"bbbb", "2025-01-03T03:04:05Z", {{"aaaa", 20}}};

class Directory : public testing::Test {
 protected:
  fs::path file(int step) const { return scratch_.path() / io::checkpoint_name(step); }

  fs::path write(const Lineage& by, int step) {
    const Tensors tensors = cut(small_model(), 0, 1, true);
    io::save_checkpoint(world(), file(step), {step, "deck", {}, {}, by}, tensors.slices, io::IoMode::independent);
    return file(step);
  }

  /// Flips one bit of a tensor; the seal and the metadata stay valid.
  void damage(const fs::path& at) {
    std::string content = read_all(at);
    content[io::describe_checkpoint(at).datasets[0].offset] ^= 1;
    write_all(at, content);
  }

  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> found;
    for (const fs::path& each : io::list_checkpoints(scratch_.path())) found.push_back(*io::checkpoint_step(each));
    return found;
  }

  static std::vector<std::int64_t> steps_of(const std::vector<fs::path>& files) {
    std::vector<std::int64_t> found;
    for (const fs::path& each : files) found.push_back(*io::checkpoint_step(each));
    return found;
  }

  Scratch scratch_;
};

TEST(Removal, TakesTheNameAtOnceAndThenTheSpace) {
  const Scratch scratch;
  const fs::path file = scratch.path() / "large", link = scratch.path() / "link";
  write_all(file, std::string(std::size_t{1} << 20U, 'x'));
  fs::create_symlink(file, link);
  io::Removal removal;
  removal.remove(link);
  EXPECT_FALSE(fs::exists(fs::symlink_status(link)));
  EXPECT_TRUE(fs::exists(file));
  removal.remove(file);
  EXPECT_FALSE(fs::exists(file));
  removal.wait();
  for (const fs::directory_entry& open : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // an error of the iterator itself
    EXPECT_THAT(fs::read_symlink(open.path(), gone).string(), Not(HasSubstr(file.string())));
  }
  fs::create_directories(file / "below");
  EXPECT_THROW(removal.remove(file), Error);
}

TEST_F(Directory, ACheckpointCarriesItsLineage) {
  const Lineage run = io::new_run_after(b, 30);
  write(run, 40);
  EXPECT_EQ(io::read_checkpoint_state(file(40)).lineage, run);
  const Tensors target = cut(small_model(), 0, 1, false);
  EXPECT_EQ(io::load_checkpoint(world(), file(40), target.slices).lineage, run);
}

TEST_F(Directory, ALongLineageIsKept) {
  Lineage run = io::new_run();
  for (int step = 1; step <= 1500; ++step) run.ancestors.push_back({run.run, step});  // resumed at every step
  write(run, 2000);
  EXPECT_EQ(io::read_checkpoint_state(file(2000)).lineage, run);
}

TEST_F(Directory, LatestIsOfTheRunsLineage) {
  for (const int step : {10, 20, 40}) write(a, step);
  write(b, 30);
  const CheckpointDirectory directory(scratch_.path());
  EXPECT_THAT(steps_of(directory.of_lineage(b)), ElementsAre(30, 20, 10)) << "a's step 40 was abandoned";
  EXPECT_THAT(steps_of(directory.of_lineage(a)), ElementsAre(40, 20, 10));
}

TEST_F(Directory, WithoutARunLatestIsOfTheOnlyLineage) {
  for (const int step : {10, 20}) write(a, step);
  write(b, 30);
  EXPECT_THAT(steps_of(CheckpointDirectory(scratch_.path()).of_lineage({})), ElementsAre(30, 20, 10));
  write(a, 40);
  EXPECT_THAT(
      error_of([&] { CheckpointDirectory(scratch_.path()).of_lineage({}); }),
      AllOf(HasSubstr(scratch_.path().string()), HasSubstr("step_00000030.h5 (step 30, run bbbb, started 2025-01-03"),
            HasSubstr("step_00000040.h5 (step 40, run aaaa"), HasSubstr("allowed: checkpoint.resume = the path")));
}

TEST_F(Directory, ARunWithNoCheckpointAmongOthersAsksForAPath) {
  write(a, 10);
  EXPECT_THAT(error_of([&] {
                CheckpointDirectory(scratch_.path()).of_lineage(Lineage{"cccc", "", {}});
              }),
              AllOf(HasSubstr("cccc"), HasSubstr("run aaaa")));
}

TEST_F(Directory, WhereARunWentOnFromStandsForItsOwn) {
  const Scratch elsewhere;
  const fs::path origin = elsewhere.path() / "origin.h5";
  fs::rename(write(a, 20), origin);
  EXPECT_THAT(CheckpointDirectory(scratch_.path()).of_lineage(b, origin), ElementsAre(origin));
  const Tensors tensors = cut(small_model(), 0, 1, true);
  io::save_checkpoint(world(), origin, {20, "", {}, {}, Lineage{"eeee", "", {}}}, tensors.slices, io::IoMode::independent);
  EXPECT_THAT(error_of([&] { CheckpointDirectory(scratch_.path()).of_lineage(b, origin); }),
              HasSubstr("another run (eeee)"));
  fs::remove(origin);
  EXPECT_THAT(error_of([&] { CheckpointDirectory(scratch_.path()).of_lineage(b, origin); }),
              HasSubstr("no such checkpoint"));
}

TEST_F(Directory, FilesTooDamagedToTellAreTriedToo) {
  write_all(file(30), "no checkpoint");
  EXPECT_THAT(steps_of(CheckpointDirectory(scratch_.path()).of_lineage({})), ElementsAre(30));
  write(a, 20);
  EXPECT_THAT(steps_of(CheckpointDirectory(scratch_.path()).of_lineage(a)), ElementsAre(30, 20));
  EXPECT_THAT(CheckpointDirectory(scratch_.path() / "absent").of_lineage({}), IsEmpty());
}

TEST_F(Directory, OtherRunsAreNamed) {
  for (const int step : {20, 40, 60}) write(a, step);
  const CheckpointDirectory directory(scratch_.path());
  EXPECT_EQ(directory.others(a), "");
  EXPECT_THAT(directory.others(b), HasSubstr("run aaaa: steps 40, 60"));
}

TEST_F(Directory, ADamagedNewestDoesNotOutliveTheGood) {
  for (const int step : {20, 40}) write(a, step);
  damage(file(40));
  CheckpointDirectory directory(scratch_.path());
  std::vector<std::string> lines;
  for (const int step : {22, 24}) {
    directory.wrote(write(a, step), {a, step});
    for (const std::string& line : directory.prune(a, 1)) lines.push_back(line);
  }
  EXPECT_THAT(steps(), ElementsAre(24, 40));
  EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("step_00000040.h5"), HasSubstr("damaged"), HasSubstr("not counted"))));
}

TEST_F(Directory, OfOtherRunsNothingIsDeleted) {
  for (const int step : {10, 20, 40}) write(a, step);
  write({}, 5);  // as an older program wrote it
  write_all(file(7), "no checkpoint");
  write_all(file(50).string() + ".partial", "what a killed run left");
  write_all(scratch_.path() / "notes.partial", "");
  CheckpointDirectory directory(scratch_.path());
  directory.remove_unfinished();
  for (const int step : {30, 40, 60}) {
    directory.wrote(write(b, step), {b, step});
    EXPECT_THAT(directory.prune(b, 2), IsEmpty());
  }
  EXPECT_THAT(steps(), ElementsAre(5, 7, 40, 60));
  EXPECT_FALSE(fs::exists(file(50).string() + ".partial"));
  EXPECT_TRUE(fs::exists(scratch_.path() / "notes.partial"));
}

TEST_F(Directory, WhereAllAreKeptOnlyWhatAKilledRunLeftIsDeleted) {
  const fs::path left = file(50).string() + ".partial";
  for (const int step : {10, 20, 40}) write(a, step);
  write_all(left, "what a killed run left");
  CheckpointDirectory directory(scratch_.path());
  directory.remove_unfinished();
  EXPECT_FALSE(fs::exists(left));
  write_all(left, "what this run writes");
  directory.remove_unfinished();
  EXPECT_TRUE(fs::exists(left));
  directory.wrote(write(a, 60), {a, 60});
  EXPECT_THAT(directory.prune(a, 0), IsEmpty());
  EXPECT_THAT(steps(), ElementsAre(10, 20, 40, 60));
}

TEST_F(Directory, AFileThatSomebodyElseReplacedIsLeftAlone) {
  write(a, 10);
  CheckpointDirectory directory(scratch_.path());
  write({"cccc", "2025-01-04T03:04:05Z", {{"aaaa", 5}}}, 10);
  directory.wrote(write(a, 20), {a, 20});
  EXPECT_THAT(directory.prune(a, 1), IsEmpty());
  EXPECT_THAT(steps(), ElementsAre(10, 20));
}

TEST_F(Directory, OneThatWasReadIsNotReadAgain) {
  for (const int step : {10, 20}) write(a, step);
  CheckpointDirectory directory(scratch_.path());
  directory.is_whole(file(20));
  // Reading it again would show the damage; its size and its time of change do not.
  const auto time = fs::last_write_time(file(20));
  damage(file(20));
  fs::last_write_time(file(20), time);
  EXPECT_THAT(directory.prune(a, 1), IsEmpty());
  EXPECT_THAT(steps(), ElementsAre(20));
}

TEST_F(Directory, OneThatCannotBeListedIsAnErrorAndNotEmpty) {
  const fs::path loop = scratch_.path() / "loop", plain = scratch_.path() / "plain";
  fs::create_symlink(loop, loop);
  write_all(plain, "");
  for (const fs::path& path : {loop, plain}) {
    try {
      const CheckpointDirectory directory(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(path.string()), HasSubstr("cannot be listed"))) << path;
    }
  }
  // Out of file descriptors.
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  std::string message;
  try {
    io::list_checkpoints(scratch_.path());
  } catch (const Error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(message, AllOf(HasSubstr("cannot be listed"), HasSubstr("Too many open files")));
}

}  // namespace of_checkpoint_directory_test
}  // namespace shoal::test
