// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are written from a copy while the tensors change have the values at start().
#include "shoal/io/background_save.hpp"

#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "io/scratch.hpp"
#include "io/tensors.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/comm/watchdog.hpp"
#include "shoal/io/checkpoint_directory.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace of_background_save_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Large enough that writing takes a while: 12 MB.
const std::vector<Shape>& wide_model() {
  static const std::vector<Shape> shapes = {{"/parameters/a", {1024, 1024}},
                                            {"/parameters/b", {7}},
                                            {"/moments/first/a", {1024, 1024}},
                                            {"/moments/second/a", {1024, 1024}}};
  return shapes;
}

class Background : public testing::Test {
 protected:
  Background()
      : scratch_(&world().all()),
        tensors_(cut(wide_model(), world().all().rank(), world().all().size(), true)),
        copy_(io::BackgroundSave::copy_elements(tensors_.slices)),
        save_(std::make_unique<io::BackgroundSave>(world(), copy_)) {}

  fs::path file(int step) const { return scratch_.path() / io::checkpoint_name(step); }

  std::uint64_t start(int step, std::function<void()> then = {}) {
    return save_->start(file(step), {step, "deck", {}, {{"scale", 0.1}}}, tensors_.slices, std::move(then));
  }

  /// Changes the states as a training step does.
  void change() {
    for (const io::TensorSlice& slice : tensors_.slices) std::fill(slice.values.begin(), slice.values.end(), -2.0F);
  }

  void expect_good(const fs::path& saved) const {
    Tensors target = cut(wide_model(), world().all().rank(), 1, false);
    io::load_checkpoint(world(), saved, target.slices);
    for (const io::TensorSlice& slice : target.slices) {
      for (std::size_t i = 0; i < slice.values.size(); ++i) {
        ASSERT_EQ(slice.values[i], value_at(slice.dataset, slice.range.begin + i)) << slice.dataset << " element " << i;
      }
    }
  }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(scratch_.path())) found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }

  Scratch scratch_;
  Tensors tensors_;
  std::vector<float> copy_;
  std::unique_ptr<io::BackgroundSave> save_;
};

TEST_F(Background, WritesWhatWasThereWhenItStarted) {
  EXPECT_FALSE(save_->under_way());
  const std::uint64_t bytes = start(1);
  change();
  EXPECT_TRUE(save_->under_way());
  EXPECT_FALSE(fs::exists(file(1)));
  save_->finish();
  EXPECT_FALSE(save_->under_way());
  EXPECT_EQ(bytes, fs::file_size(file(1)));
  expect_good(file(1));
  world().all().barrier().wait();
  EXPECT_THAT(names(), ElementsAre("step_00000001.h5"));
}

TEST_F(Background, IsTheFileThatSavingAtOnceMakes) {
  start(1);
  save_->finish();
  const fs::path other = scratch_.path() / "at_once.h5";
  io::save_checkpoint(world(), other, {1, "deck", {}, {{"scale", 0.1}}}, tensors_.slices, io::IoMode::independent);
  const io::CheckpointContents a = io::describe_checkpoint(file(1)), b = io::describe_checkpoint(other);
  EXPECT_EQ(a.file_bytes, b.file_bytes);
  EXPECT_EQ(a.state.numbers, b.state.numbers);
  ASSERT_EQ(a.datasets.size(), b.datasets.size());
  for (std::size_t i = 0; i < a.datasets.size(); ++i) {
    EXPECT_EQ(a.datasets[i].checksum, b.datasets[i].checksum) << a.datasets[i].name;
    EXPECT_EQ(a.datasets[i].offset, b.datasets[i].offset) << a.datasets[i].name;
  }
}

TEST_F(Background, BordersOfStepsCompleteItOnAllRanksAtTheSameOne) {
  start(1);
  std::int64_t borders = 0;
  while (save_->under_way()) {
    ASSERT_LT(++borders, 10'000);
    if (world().all().rank() == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // ranks reach the boundary at different times
    save_->advance();
  }
  std::int64_t least_and_most[2] = {borders, -borders};
  world().all().all_reduce(Span<std::int64_t>(least_and_most), comm::Reduce::min).wait();
  EXPECT_EQ(least_and_most[0], -least_and_most[1]);
  EXPECT_GE(borders, 3);  // one to ask, one to learn that all have written, one to learn that the file is renamed
  expect_good(file(1));
}

TEST_F(Background, TheNextOneWaitsAndTheOldestGo) {
  const io::Lineage run = io::new_run();
  io::CheckpointDirectory directory(scratch_.path());
  for (int step = 1; step <= 4; ++step) {
    start(step, [&, step] {
      EXPECT_TRUE(scratch_.owner());
      directory.wrote(file(step), {run, step});
      directory.prune(run, 2);
    });
    EXPECT_EQ(fs::exists(file(step - 1)), step > 1);
  }
  save_->finish();
  world().all().barrier().wait();
  EXPECT_THAT(names(), ElementsAre("step_00000003.h5", "step_00000004.h5"));
  expect_good(file(4));
}

/// Rank 0 may delete old checkpoints for longer than comm.timeout, while the others wait for it.
TEST_F(Background, ASlowEndIsNoHang) {
  constexpr double timeout_s = 2;
  const comm::Watchdog watchdog(world(), timeout_s);
  start(1, [] {
    for (int i = 0; i < 70; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      heartbeat::beat();
    }
  });
  save_->finish();
  expect_good(file(1));
}

TEST_F(Background, OneThatIsGivenUpLeavesTheOneBefore) {
  start(1);
  save_->finish();
  start(2);
  save_.reset();
  world().all().barrier().wait();
  EXPECT_THAT(names(), ElementsAre("step_00000001.h5", "step_00000002.h5.partial"));
  Tensors target = cut(wide_model(), world().all().rank(), world().all().size(), false);
  const auto loaded = io::load_newest_checkpoint(
      world(), [&] { return io::list_checkpoints(scratch_.path()); },
      [&](const io::CheckpointState&) { return target.slices; });
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->state.step, 1);
}

SHOAL_RUN_IF(Background, AWriteThatFailsOnOneRankIsOneErrorOnAll, ranks > 1);  // rank 0 reserves the space
TEST_F(Background, AWriteThatFailsOnOneRankIsOneErrorOnAll) {
  start(1);
  save_->finish();
  const bool victim = world().all().rank() == world().all().size() - 1;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  if (victim) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{100'000, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  start(2);
  const std::string message = error_of(
      [&] {
        while (save_->under_way()) save_->advance();
      },
      Exit::failed);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(message, AllOf(HasSubstr("rank " + std::to_string(world().all().size() - 1)),
                             HasSubstr(file(2).string() + ".partial: cannot be written"), HasSubstr("File too large")));
  EXPECT_FALSE(save_->under_way());
  EXPECT_THAT(names(), ElementsAre("step_00000001.h5"));
  world().all().barrier().wait();
  start(3);  // the failed save has left nothing behind
  save_->finish();
  expect_good(file(3));
}

TEST_F(Background, AFileThatCannotBeGivenItsNameIsAnError) {
  start(1);
  world().all().barrier().wait();
  if (scratch_.owner()) {
    // A file cannot be renamed to the name of a directory.
    fs::create_directory(file(1));
    write_all(file(1) / "x", "x");
  }
  EXPECT_THAT(error_of([&] { save_->finish(); }, Exit::failed), HasSubstr("cannot be renamed to this"));
  EXPECT_THAT(names(), ElementsAre("step_00000001.h5"));
}

TEST_F(Background, ADirectoryThatIsNotThereIsAnErrorAtOnce) {
  const fs::path absent = scratch_.path() / "absent" / "step_00000001.h5";
  EXPECT_THAT(error_of([&] { save_->start(absent, {}, tensors_.slices); }, Exit::failed),
              HasSubstr("No such file or directory"));
  EXPECT_FALSE(save_->under_way());
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(Background, IsInTheTraceWithBytesAndTime) {
  trace::start(trace::Level::steps, 1000);
  trace::set_step(7);
  start(1);
  trace::set_step(8);
  save_->finish();
  trace::stop();
  std::map<std::string, trace::Event> events;
  for (const trace::Event& event : trace::drain()) {
    if (event.kind == static_cast<std::uint16_t>(trace::Kind::io)) {
      events[trace::names()[static_cast<std::size_t>(event.name)]] = event;
    }
  }
  const std::uint64_t own = copy_.size() * sizeof(float);
  EXPECT_EQ(events.at("checkpoint/copy").bytes, own);
  EXPECT_EQ(events.at("checkpoint/write").bytes, own);
  EXPECT_EQ(events.at("checkpoint/write").step, 7);
  EXPECT_GT(events.at("checkpoint/write").duration_ns, 0);
  EXPECT_EQ(events.count("checkpoint/finish"), scratch_.owner() ? 1U : 0U);
  if (!scratch_.owner()) return;
  EXPECT_EQ(events.at("checkpoint/finish").bytes, fs::file_size(file(1)));
}

}  // namespace of_background_save_test
}  // namespace shoal::test
