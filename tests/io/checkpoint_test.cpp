// SPDX-License-Identifier: Apache-2.0
// Checkpoints on several ranks: however tensors were sharded and are sharded now, the values that were written are read.
#include "shoal/io/checkpoint.hpp"

#include <limits>

#include "io/files/hash.hpp"
#include "io/hdf5/seal.hpp"
#include "io/scratch.hpp"
#include "io/tensors.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace of_checkpoint_test {

using io::IoMode;
using testing::HasSubstr;

io::CheckpointState some_state() {
  return {20,
          "[train]\nsteps = 20\n",
          {{"train.seed", "7"}, {"empty", ""}},
          {{"loss_scale", 65536}, {"tenth", 0.1}, {"large", 1e300}, {"infinite", std::numeric_limits<double>::infinity()}},
          {},
          "shoal 1.2.3"};
}

/// Saves with all elements on the first `writers` ranks.
std::uint64_t save(const std::filesystem::path& file, int writers, IoMode mode = IoMode::automatic) {
  const Tensors tensors = cut(small_model(), world().all().rank(), writers, true);
  return io::save_checkpoint(world(), file, some_state(), tensors.slices, mode);
}

void expect_values(const Tensors& tensors) {
  for (const io::TensorSlice& slice : tensors.slices) {
    for (std::size_t i = 0; i < slice.values.size(); ++i) {
      ASSERT_EQ(slice.values[i], value_at(slice.dataset, slice.range.begin + i)) << slice.dataset << " element " << i;
    }
  }
}

TEST(Checksum, IsXxh3OverPieces) {
  EXPECT_EQ(io::xxh3({}), 0x2d06800538d394c2U);  // the published value for empty input
  std::vector<float> values(40);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto piece = [&](std::size_t begin, std::size_t end) {
    return io::xxh3(std::as_bytes(Span<const float>(values).subspan(begin, end - begin)), begin / 16);
  };
  const std::uint64_t expected = piece(0, 16) + piece(16, 32) + piece(32, 40);
  EXPECT_EQ(io::checksum({"/x", {40}, {0, 40}, values}), expected);
  const Span<float> all = values;
  EXPECT_EQ(io::checksum({"/x", {40}, {0, 16}, all.first(16)}) + io::checksum({"/x", {40}, {16, 40}, all.subspan(16)}),
            expected);
  std::swap(values[0], values[16]);
  std::swap(values[1], values[17]);
  EXPECT_NE(io::checksum({"/x", {40}, {0, 40}, values}), expected);
}

TEST(Checksum, OfParametersDoesNotDependOnTheCut) {
  const int rank = world().all().rank(), size = world().all().size();
  const std::uint64_t expected = io::params_checksum(world().all(), cut(small_model(), rank, 1, true).slices);
  for (int parts = 2; parts <= size; ++parts) {
    EXPECT_EQ(io::params_checksum(world().all(), cut(small_model(), rank, parts, true).slices), expected) << parts;
  }
  std::map<std::string, std::uint64_t> by_name;
  for (const io::TensorSlice& slice : cut(small_model(), 0, 1, true).slices) {
    const std::string name = slice.dataset.starts_with("/parameters/") ? slice.dataset.substr(12) : slice.dataset;
    by_name[name] = io::checksum(slice);
  }
  EXPECT_EQ(io::combine(by_name), expected);
}

class RoundTrip : public testing::TestWithParam<IoMode> {};

TEST_P(RoundTrip, AnyCutIsReadByAnyOther) {
  Scratch scratch(&world().all());
  const int rank = world().all().rank(), size = world().all().size();
  std::string checksum;
  for (int writers = 1; writers <= size; ++writers) {
    const auto file = scratch.path() / io::checkpoint_name(writers);
    const std::uint64_t bytes = save(file, writers, GetParam());
    EXPECT_EQ(bytes, std::filesystem::file_size(file));
    EXPECT_FALSE(std::filesystem::exists(file.string() + ".partial"));
    for (int readers = 1; readers <= size; ++readers) {
      Tensors target = cut(small_model(), rank, readers, false);
      const io::CheckpointState state = io::load_checkpoint(world(), file, target.slices);
      EXPECT_EQ(state.step, 20);
      EXPECT_EQ(state.deck, some_state().deck);
      EXPECT_EQ(state.scalars, some_state().scalars);
      EXPECT_EQ(state.numbers, some_state().numbers);
      expect_values(target);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Modes, RoundTrip, testing::Values(IoMode::automatic, IoMode::independent, IoMode::collective));

TEST(Checkpoint, AnyRangesAreRead) {
  Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000001.h5";
  save(file, world().all().size());
  Tensors target;  // overlapping ranges that begin within checksum pieces, and no other elements
  const auto begin = static_cast<std::size_t>(world().all().rank() + 3);
  for (const Shape& s : small_model()) {
    const std::size_t n = elements_of(s.shape);
    target.add(s.name, s.shape, n > 1000 ? Range{begin, 1001} : Range{n, n}, false);
  }
  io::load_checkpoint(world(), file, target.slices);
  expect_values(target);
}

TEST(Checkpoint, ADeckOfMoreThan64KiBIsKept) {
  Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000001.h5";
  io::CheckpointState state = some_state();
  state.deck.assign(200'000, '#');
  io::save_checkpoint(world(), file, state, cut(small_model(), world().all().rank(), 1, true).slices, IoMode::automatic);
  EXPECT_EQ(io::read_checkpoint_state(file).deck, state.deck);
}

TEST(Checkpoint, ReplacesAnOlderOneOfTheSameStep) {
  Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000001.h5";
  save(file, 1);
  save(file, world().all().size());
  EXPECT_EQ(io::verify_checkpoint(file).datasets.size(), small_model().size());
}

TEST(Checkpoint, DescribesWhatIsInIt) {
  Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000001.h5";
  save(file, world().all().size());
  const io::CheckpointContents contents = io::describe_checkpoint(file);
  EXPECT_EQ(contents.format_version, 1);
  EXPECT_EQ(contents.state.program, some_state().program);
  EXPECT_EQ(contents.state.step, 20);
  ASSERT_EQ(contents.datasets.size(), small_model().size());
  for (const io::CheckpointDataset& dataset : contents.datasets) {
    const auto found =
        std::find_if(small_model().begin(), small_model().end(), [&](const Shape& s) { return s.name == dataset.name; });
    ASSERT_NE(found, small_model().end()) << dataset.name;
    EXPECT_EQ(dataset.shape, found->shape);
  }
}

std::string load_error(const std::filesystem::path& file, const std::vector<Shape>& model) {
  Tensors target = cut(model, world().all().rank(), world().all().size(), false);
  return error_of([&] { io::load_checkpoint(world(), file, target.slices); });
}

TEST(AnotherModel, IsRefusedByTheDatasetsName) {
  Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000001.h5";
  save(file, world().all().size());
  std::vector<Shape> missing = small_model(), extra = small_model(), wider = small_model();
  missing.push_back({"/parameters/transformer.h.1.mlp.c_fc.weight", {24, 96}});
  extra.erase(extra.begin() + 2);
  wider[0].shape = {65, 32};
  EXPECT_THAT(load_error(file, missing),
              AllOf(HasSubstr(file.string()), HasSubstr("/parameters/transformer.h.1.mlp.c_fc.weight"),
                    HasSubstr("[24, 96]"), HasSubstr("not in the file")));
  EXPECT_THAT(load_error(file, extra),
              AllOf(HasSubstr("/parameters/transformer.h.0.mlp.c_fc.weight"), HasSubstr("which this model does not have")));
  EXPECT_THAT(load_error(file, wider),
              AllOf(HasSubstr("/parameters/transformer.wte.weight"), HasSubstr("[65, 24]"), HasSubstr("expected [65, 32]")));
}

TEST(AnotherModel, ParametersAloneMayBeAskedFor) {
  Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000001.h5";
  save(file, world().all().size());
  const std::vector<Shape> parameters(small_model().begin(), small_model().begin() + 4);
  Tensors target = cut(parameters, world().all().rank(), 1, false);
  io::load_checkpoint(world(), file, target.slices);
  expect_values(target);
}

TEST(Save, RefusesTensorsThatTheRanksDoNotListWhole) {
  Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000001.h5";
  Tensors gap = cut(small_model(), world().all().rank(), world().all().size(), true);
  if (world().all().rank() == 0) {  // the first checksum piece of the first tensor is on no rank
    gap.slices[0].range.begin += 16;
    gap.slices[0].values = gap.slices[0].values.subspan(16);
  }
  std::string message;
  try {
    io::save_checkpoint(world(), file, some_state(), gap.slices, IoMode::automatic);
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_THAT(message, AllOf(HasSubstr("/parameters/transformer.wte.weight"), HasSubstr("1544 of its 1560")));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Save, AnErrorIsTheSameOnAllRanksAndLeavesNothing) {
  Scratch scratch(&world().all());
  const auto file = scratch.path() / "absent" / "step_00000001.h5";
  const Tensors tensors = cut(small_model(), world().all().rank(), 1, true);
  const std::string message =
      error_of([&] { io::save_checkpoint(world(), file, some_state(), tensors.slices, IoMode::automatic); }, Exit::failed);
  EXPECT_THAT(message, AllOf(HasSubstr(file.string()), HasSubstr("No such file or directory")));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

}  // namespace of_checkpoint_test
}  // namespace shoal::test
