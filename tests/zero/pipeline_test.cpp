// SPDX-License-Identifier: Apache-2.0
// The units of a model divided among the stages of a pipeline. Everything has the bits that it has if each rank has all
// units: norms, squares, parameters, moments and the bytes of a checkpoint. Instead of a model the test writes gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "io/scratch.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/kernels/storage.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/zero/states.hpp"
#include "support/mpi_main.hpp"
#include "zero/gradients.hpp"
#include "zero/parameters.hpp"

namespace shoal::zero {
namespace of_pipeline_test {

constexpr std::size_t micro_batches = 12;  // three rounds on one rank and on two
constexpr std::uint64_t seed = 7;
constexpr double beta2 = 0.95;

comm::World& world() { return shoal::test::world(); }

std::vector<model::UnitLayout> units() {
  std::vector<model::UnitLayout> result(5);
  const std::size_t rows[] = {30, 21, 21, 40, 3};
  for (std::size_t u = 0; u < result.size(); ++u) {
    const std::string name = "unit" + std::to_string(u);
    result[u].name = name;
    result[u].add(name + ".weight", {rows[u], 40}, 0.02F);
    result[u].add(name + ".bias", {rows[u]}, 0, 0.5F);
  }
  return result;
}

/// What each stage has of the five units, part k of stage s being part k P + s of the model.
std::vector<model::Part> parts_of(int stages, int stage, std::size_t parts) {
  const auto first = 2 * static_cast<std::size_t>(stage);
  if (stages == 3) return {{{first, std::min<std::size_t>(first + 2, 5)}}};
  if (parts == 1) return {stage == 0 ? model::Part{{0, 3}} : model::Part{{3, 5}}};
  if (stage == 0) return {{{0, 1}}, {{2, 3}}};
  return {{{1, 2}}, {{3, 5}}};
}

struct Case {
  int stage = 0;  ///< of ZeRO
  DType dtype = DType::f32;
  Squares squares = Squares::none;
  std::size_t parts = 1;  ///< per stage of the pipeline
};

std::vector<int> present(const std::vector<model::Part>& parts) {
  std::vector<int> result;
  for (int u = 0; u < static_cast<int>(units().size()); ++u) {
    if (parts.empty() || model::has_unit(parts, static_cast<std::size_t>(u))) result.push_back(u);
  }
  return result;
}

/// One after the other.
UseOrder each_of(const std::vector<int>& present_units) {
  UseOrder order;
  for (const int unit : present_units) order.push_back({unit});
  return order;
}

/// The states of one rank and its steps, as zero::Engine makes them. parts: none if it has all units.
class Rank {
 public:
  Rank(const Case& how, const std::vector<model::Part>& parts, const RankGroups& groups)
      : how_(how), parts_(parts), groups_(groups), memory_(counted(how, parts, groups)), all_(how, parts, groups, memory_) {
    EXPECT_EQ(memory_.taken(), counted(how, parts, groups));
    all_.states.initialize(seed);
    publish();
  }

  /// A step with gradients that are functions of (unit, element, micro-batch, step).
  Norm step(std::int64_t number, float last_of_unit_3 = 0) {
    Gradients& gradients = all_.gradients;
    if (how_.squares == Squares::weighted && number > 1) {
      gradients.weights().resample(
          static_cast<std::uint64_t>(number - 1), [&](int u) { return all_.states.second_moment_shard(u); }, 0.3, 1e-8);
    }
    for (const std::vector<int>& sweep : sweeps_of(parts_, units())) {  // several parts are in different turns
      for (std::size_t turn = 0; turn < all_.accumulation.turns(); ++turn) {
        for (const int unit : sweep) {
          write(unit, all_.accumulation.micro_batch_of_turn(turn, groups_.rank), number, gradients.of(unit), last_of_unit_3);
          gradients.complete(unit);
        }
      }
    }
    gradients.finish_step();
    gradients.start_gather();
    gradients.measure_norm();
    device::wait_for_queue();
    gradients.share_squares();
    squares_.clear();
    for (std::size_t turn = 0; turn < all_.accumulation.turns(); ++turn) squares_.push_back(gradients.square_of_turn(turn));
    const Norm norm = gradients.norm();
    gradients.wait_for_gather();
    update(number, static_cast<float>(std::min(1.0, 1 / norm.value)));
    return norm;
  }

  void publish() {
    all_.states.round_masters();
    all_.parameters.start_all_gather();
    all_.parameters.wait_for_parameters();
  }

  const std::vector<double>& squares() const { return squares_; }
  States& states() { return all_.states; }
  const ShardLayout& layout(int unit) const { return all_.layouts[static_cast<std::size_t>(unit)]; }

  /// The parameters of a unit as the model sees them, for units in ascending order.
  std::vector<std::vector<std::byte>> whole_parameters() {
    std::vector<std::vector<std::byte>> result(units().size());
    all_.parameters.begin(0);
    for (const int unit : present(parts_)) {
      const auto* const first = static_cast<const std::byte*>(all_.parameters.acquire(unit));
      result[static_cast<std::size_t>(unit)].assign(first, first + layout(unit).elements * size_of(how_.dtype));
      all_.parameters.release(unit);
    }
    return result;
  }

  /// Parameters and moments: this rank's shards, or all that it keeps.
  std::vector<NamedSlice> slices(States::Which which) {
    std::vector<NamedSlice> result = all_.states.parameter_slices(which);
    append(result, all_.states.moment_slices(which));
    return result;
  }

 private:
  struct All {
    std::vector<ShardLayout> layouts;
    AccumulationPlan accumulation;
    States states;
    Gradients gradients;
    Parameters parameters;
    Span<float> widened;
    All(const Case& how, const std::vector<model::Part>& parts, const RankGroups& groups, Memory& memory)
        : layouts(shard_layouts(units(), zero(how), groups, parts)),
          accumulation(micro_batches, groups.ranks, groups.ranks > 1 && stage_of(zero(how)).shards_gradients),
          states(units(), layouts, how.dtype, {"first", "second"}, groups, memory),
          gradients(units(), layouts, sweeps_of(parts, units()), accumulation, groups,
                    {.bucket_elements = 1500, .dtype = how.dtype, .squares = how.squares}, memory),
          parameters(units(), layouts, states, {each_of(present(parts))}, groups, {zero(how), 1500}, memory),
          widened(memory.take<float>(Kind::buffers, 2048, "gradients in fp32")) {}
  };

  static ZeroOptions zero(const Case& how) { return {.stage = how.stage}; }
  static Ledger counted(const Case& how, const std::vector<model::Part>& parts, const RankGroups& groups) {
    Memory counting(device::images());
    const All planned(how, parts, {groups.rank, groups.ranks, nullptr}, counting);
    return counting.taken();
  }

  static void write(int unit, std::size_t micro_batch, std::int64_t step, float* gradient, float last_of_unit_3) {
    std::mt19937 generator(static_cast<unsigned>(unit * 10000 + step * 100 + static_cast<int>(micro_batch)));
    std::normal_distribution<float> normal;
    const std::size_t elements = units()[static_cast<std::size_t>(unit)].elements;
    for (std::size_t i = 0; i < elements; ++i) {
      gradient[i] = std::ldexp(normal(generator), static_cast<int>(generator() % 20) - 10);
    }
    if (unit == 3) gradient[elements - 1] += last_of_unit_3;
  }

  void update(std::int64_t number, float scale) {
    const std::unique_ptr<optim::Optimizer> optimizer = optim::make({});
    for (const int unit : present(parts_)) {
      const Range own = layout(unit).optimizer;
      const Span<float> gradient = all_.widened.first(own.size());
      kernels::widen(how_.dtype, own.size(), all_.gradients.reduced(unit, own).data(), gradient.data());
      all_.states.step(unit, own, gradient, *optimizer, {number, 0.01, 0.9, beta2, scale}, false);
    }
    all_.parameters.start_all_gather();
    all_.parameters.wait_for_parameters();
  }

  Case how_;
  std::vector<model::Part> parts_;
  RankGroups groups_;
  device::DeviceMemory memory_;
  All all_;
  std::vector<double> squares_;
};

/// Two stages of two ranks each, or three of one.
class Pipelines : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    world().make_groups(shoal::test::comm_options(), {.tensor = 1, .pipeline = world().size() == 3 ? 3 : 2});
  }
  static void TearDownTestSuite() { world().make_groups(shoal::test::comm_options()); }

  static RankGroups of_stage() { return {world().data().rank(), world().data().size(), &world().data()}; }
  static int stages_of_pipeline() { return world().axes().pipeline; }

  /// Every rank has all units, and the ranks of each stage train by themselves.
  static Rank whole(const Case& how) { return {how, {}, of_stage()}; }
  static Rank divided(const Case& how) {
    RankGroups groups = of_stage();
    groups.model = &world().model();
    return {how, parts_of(stages_of_pipeline(), world().position().pipeline, how.parts), groups};
  }
};

/// Calls check(how) for all stages of ZeRO and types, with different kinds of squares; in fp32 also with two parts.
template <typename Check>
void for_all_cases(int stages_of_pipeline, const Check& check) {
  const Squares squares[] = {Squares::none, Squares::plain, Squares::weighted};
  for (std::size_t parts = 1; parts <= (stages_of_pipeline == 2 ? 2U : 1U); ++parts) {
    for (int stage = 0; stage < 4; ++stage) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        if (parts == 2 && dtype != DType::f32) continue;
        const Case how{stage, dtype, squares[(static_cast<std::size_t>(stage) + parts) % 3], parts};
        SCOPED_TRACE(text("stage ", stage, ", ", name_of(dtype), ", parts ", parts));
        check(how);
      }
    }
  }
}

/// What a stage has equals what it has of the whole model, and of other stages' tensors it has nothing.
void expect_part_of(const std::vector<NamedSlice>& whole, const std::vector<NamedSlice>& part,
                    const std::vector<model::Part>& parts) {
  ASSERT_EQ(part.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(part[i].dataset, whole[i].dataset);
    ASSERT_EQ(part[i].shape, whole[i].shape);
    const std::size_t unit = i / 2 % units().size();  // a weight and a bias each, in three states
    if (!model::has_unit(parts, unit)) {
      EXPECT_TRUE(part[i].range.empty()) << part[i].dataset;
      continue;
    }
    ASSERT_EQ(part[i].range, whole[i].range) << part[i].dataset;
    EXPECT_TRUE(std::equal(part[i].values.begin(), part[i].values.end(), whole[i].values.begin())) << part[i].dataset;
  }
}

TEST_F(Pipelines, TrainAsRanksThatHaveAllUnits) {
  for_all_cases(stages_of_pipeline(), [&](const Case& how) {
    const std::vector<model::Part> parts = parts_of(stages_of_pipeline(), world().position().pipeline, how.parts);
    Rank one = whole(how), mine = divided(how);
    const auto expect_same_parameters = [&] {
      const auto all = one.whole_parameters(), own = mine.whole_parameters();
      for (const int unit : present(parts)) {
        const auto u = static_cast<std::size_t>(unit);
        EXPECT_TRUE(own[u] == all[u]) << "unit " << unit;
      }
    };
    expect_same_parameters();
    for (std::int64_t number = 1; number <= 2; ++number) {
      const Norm expected = one.step(number), norm = mine.step(number);
      EXPECT_EQ(norm.value, expected.value);
      EXPECT_EQ(norm.square, expected.square);
      EXPECT_EQ(norm.non_finite_unit, -1);
      EXPECT_EQ(mine.squares(), one.squares());
      EXPECT_EQ(mine.squares().front() > 0, how.squares != Squares::none && (how.squares == Squares::plain || number > 1));
    }
    expect_same_parameters();
    expect_part_of(one.slices(States::Which::kept), mine.slices(States::Which::kept), parts);
    expect_part_of(one.slices(States::Which::own), mine.slices(States::Which::own), parts);
    EXPECT_EQ(io::params_checksum(world().all(), mine.slices(States::Which::own)),
              io::params_checksum(world().data(), one.slices(States::Which::own)));
    for (int unit = 0; unit < static_cast<int>(units().size()); ++unit) {
      EXPECT_TRUE(mine.states().whole_master(unit) == one.states().whole_master(unit)) << "unit " << unit;
    }
  });
}

/// As the trainer skips such an update on all ranks or on none.
TEST_F(Pipelines, AllStagesSeeAGradientThatIsNotFinite) {
  for (const float wrong : {NAN, INFINITY}) {
    const Norm norm = divided({.stage = 1}).step(1, wrong);
    EXPECT_FALSE(std::isfinite(norm.value));
    EXPECT_EQ(norm.non_finite_unit, 3);
  }
}

/// The slices of a rank that writes and reads nothing.
std::vector<NamedSlice> none_of(std::vector<NamedSlice> slices) {
  for (NamedSlice& slice : slices) {
    slice.range = {};
    slice.values = {};
  }
  return slices;
}

/// All of a file but the times at which HDF5 made its objects: the places, checksums and bytes of all tensors, in text.
std::string content_of(const std::filesystem::path& file) {
  const io::CheckpointContents contents = io::describe_checkpoint(file);
  const std::string bytes = shoal::test::read_all(file);
  std::string all = text(contents.file_bytes, " bytes, step ", contents.state.step, " ", contents.state.deck);
  for (const io::CheckpointDataset& dataset : contents.datasets) {
    all += text("\n", dataset.name, " ", shape_text(dataset.shape), " at ", dataset.offset, " ",
                io::hexadecimal(dataset.checksum), " ");
    all += bytes.substr(dataset.offset, dataset.elements() * sizeof(float));
  }
  return all;
}

TEST_F(Pipelines, WriteTheFileOfRanksThatHaveAllUnits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (int stage = 0; stage < 2; ++stage) {
      SCOPED_TRACE(text("stage ", stage, ", ", name_of(dtype)));
      const shoal::test::Scratch scratch(&world().all());
      Rank one = whole({stage, dtype}), mine = divided({stage, dtype});
      one.step(1);
      mine.step(1);
      const auto save = [&](const char* name, const std::vector<NamedSlice>& slices) {
        io::save_checkpoint(world(), scratch.path() / name, {1, "deck", {}}, slices, io::IoMode::automatic);
        return content_of(scratch.path() / name);
      };
      const bool first_stage = world().position().pipeline == 0;
      const std::vector<NamedSlice> of_one = one.slices(States::Which::own);
      const std::string expected = save("one.h5", first_stage ? of_one : none_of(of_one));
      EXPECT_TRUE(save("divided.h5", mine.slices(States::Which::own)) == expected);
      EXPECT_GT(expected.size(), 3 * 4600 * sizeof(float)) << "parameters and two moments";
    }
  }
}

/// Written by P x D ranks, read by all as data-parallel ranks, and the other way round.
TEST_F(Pipelines, ReadAndWriteFilesOfOtherDivisions) {
  const shoal::test::Scratch scratch(&world().all());
  const std::filesystem::path file = scratch.path() / "step_00000001.h5";
  const auto moves = [&](Rank& from, Rank& to) {
    io::save_checkpoint(world(), file, {1, "deck", {}}, from.slices(States::Which::own), io::IoMode::automatic);
    io::load_checkpoint(world(), file, to.slices(States::Which::kept));
    to.publish();
    EXPECT_EQ(io::params_checksum(world().all(), to.slices(States::Which::own)),
              io::params_checksum(world().all(), from.slices(States::Which::own)));
    for (int unit = 0; unit < static_cast<int>(units().size()); ++unit) {
      EXPECT_TRUE(to.states().whole_master(unit) == from.states().whole_master(unit)) << "unit " << unit;
    }
  };
  for (int stage = 0; stage < 2; ++stage) {
    SCOPED_TRACE(stage);
    Rank mine = divided({.stage = stage});
    Rank flat({.stage = 1 - stage, .dtype = DType::bf16}, {}, {world().rank(), world().size(), &world().all()});
    mine.step(1);
    moves(mine, flat);
    flat.step(2);
    moves(flat, mine);
  }
}

}  // namespace of_pipeline_test
}  // namespace shoal::zero
