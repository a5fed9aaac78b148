// SPDX-License-Identifier: Apache-2.0
// Checkpoints of sharded states: each rank writes its shards of the units' flat buffers, which begin and end anywhere within
// tensors; they are read with other partitions; and no rank needs more memory than for its own slices.
#include <hdf5.h>
#include <sys/resource.h>

#include "io/hdf5/seal.hpp"
#include "io/scratch.hpp"
#include "io/tensors.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/zero/partition.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace of_universal_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// The tensors of a unit, one after another in its flat buffer, each aligned to 16 elements.
const std::vector<std::vector<Shape>>& units() {
  static const std::vector<std::vector<Shape>> all = {
      {{"/parameters/wte", {65, 24}}, {"/parameters/wpe", {32, 24}}},
      {{"/parameters/h.0.ln_1.weight", {24}},  // several tensors within one granule of 256
       {"/parameters/h.0.ln_1.bias", {24}},
       {"/parameters/h.0.attn.weight", {24, 72}},
       {"/parameters/h.0.attn.bias", {72}}},
      {{"/parameters/ln_f.weight", {7}}, {"/parameters/scale", {}}}};  // fewer granules than ranks
  return all;
}

/// The slices of rank `rank` of `ranks`, with its shard of every unit.
Tensors shards(int rank, int ranks, bool fill) {
  Tensors tensors;
  for (const std::vector<Shape>& unit : units()) {
    std::size_t elements = 0;
    for (const Shape& s : unit) elements += round_up(elements_of(s.shape), 16);
    const Range kept = zero::shard_of(elements, rank, ranks);
    std::size_t offset = 0;
    for (const Shape& s : unit) {
      const Range part = intersection(kept, {offset, offset + elements_of(s.shape)});
      tensors.add(s.name, s.shape, part.empty() ? Range{} : Range{part.begin - offset, part.end - offset}, fill);
      offset += round_up(elements_of(s.shape), 16);
    }
  }
  return tensors;
}

void expect_values(const Tensors& tensors) {
  for (const io::TensorSlice& slice : tensors.slices) {
    for (std::size_t i = 0; i < slice.values.size(); ++i) {
      ASSERT_EQ(slice.values[i], value_at(slice.dataset, slice.range.begin + i)) << slice.dataset << " element " << i;
    }
  }
}

/// Ranks beyond `ranks` list the tensors with empty slices.
Tensors shards_of_some(int ranks, bool fill) {
  const int rank = world().all().rank();
  if (rank < ranks) return shards(rank, ranks, fill);
  Tensors tensors = shards(0, 1, false);
  for (io::TensorSlice& slice : tensors.slices) {
    slice.range = {};
    slice.values = {};
  }
  return tensors;
}

void flip_last_byte(const fs::path& file, const std::string& name) {
  const io::CheckpointContents contents = io::describe_checkpoint(file);
  const auto dataset = std::find_if(contents.datasets.begin(), contents.datasets.end(),
                                    [&](const io::CheckpointDataset& d) { return d.name == name; });
  std::string content = read_all(file);
  content[dataset->offset + dataset->elements() * sizeof(float) - 1] ^= 1;
  write_all(file, content);
}

TEST(Universal, ShardsOfAnyNumberOfRanksAreReadByAnyOther) {
  Scratch scratch(&world().all());
  const int size = world().all().size();
  for (int writers = 1; writers <= size; ++writers) {
    const fs::path file = scratch.path() / io::checkpoint_name(writers);
    io::save_checkpoint(world(), file, {writers, "", {}}, shards_of_some(writers, true).slices, io::IoMode::automatic);
    for (int readers = 1; readers <= size; ++readers) {
      Tensors target = shards_of_some(readers, false);
      io::load_checkpoint(world(), file, target.slices);
      expect_values(target);
    }
  }
}

/// Shards within groups of ranks, so that several ranks have the same one: every element the same number of times, or, for 3
/// ranks in groups of 2, not.
TEST(Universal, ShardsThatSeveralRanksKeepAreRead) {
  Scratch scratch(&world().all());
  const int rank = world().all().rank(), size = world().all().size();
  const fs::path file = scratch.path() / io::checkpoint_name(1);
  io::save_checkpoint(world(), file, {1, "", {}}, shards(rank, size, true).slices, io::IoMode::automatic);
  Tensors target = shards(rank % 2, std::min(2, size), false);
  io::load_checkpoint(world(), file, target.slices);
  expect_values(target);
}

/// Damage is detected and named, wherever the slices are and however often they are read.
TEST(Universal, DamageIsFoundWhileShardsAreRead) {
  Scratch scratch(&world().all());
  const int rank = world().all().rank(), size = world().all().size();
  const fs::path file = scratch.path() / io::checkpoint_name(1);
  io::save_checkpoint(world(), file, {1, "", {}}, shards(rank, size, true).slices, io::IoMode::automatic);
  const auto load = [&](Tensors target) {
    world().all().barrier().wait();
    return error_of([&] { io::load_checkpoint(world(), file, target.slices); });
  };
  for (const char* name : {"/parameters/wpe", "/parameters/h.0.attn.weight", "/parameters/scale"}) {
    if (scratch.owner()) flip_last_byte(file, name);
    for (int readers = 1; readers <= size; ++readers) {
      EXPECT_THAT(load(shards_of_some(readers, false)), AllOf(HasSubstr(name), HasSubstr("damaged"))) << readers;
    }
    EXPECT_THAT(load(shards(0, 1, false)), AllOf(HasSubstr(name), HasSubstr("damaged")));  // whole tensors on all ranks
    EXPECT_THAT(load(shards(rank % 2, std::min(2, size), false)), AllOf(HasSubstr(name), HasSubstr("damaged")));
    world().all().barrier().wait();
    if (scratch.owner()) flip_last_byte(file, name);
    EXPECT_EQ(load(shards(rank, size, false)), "");
  }
}

/// While it exists, this process can map only this many further bytes.
class AddressLimit {
 public:
  explicit AddressLimit(std::size_t further) {
    getrlimit(RLIMIT_AS, &before_);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit{pages * 4096 + further, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before_); }
  AddressLimit(const AddressLimit&) = delete;
  AddressLimit& operator=(const AddressLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(Universal, NoRankHoldsMoreThanItsSlices) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer maps terabytes";
#endif
  Scratch scratch(&world().all());
  const int rank = world().all().rank(), size = world().all().size();
  const fs::path file = scratch.path() / io::checkpoint_name(1);
  const std::vector<Shape> model = {{"/parameters/a", {8192, 4096}}, {"/moments/first/a", {8192, 4096}}};  // 268 MB
  constexpr std::size_t allowed = std::size_t{24} << 20U;  // the MPI library needs some of it
  {
    const Tensors tensors = cut(model, rank, size, true);
    const AddressLimit limit(allowed);
    io::save_checkpoint(world(), file, {1, "", {}}, tensors.slices, io::IoMode::independent);
  }
  Tensors target = cut(model, rank, size, false);
  {
    const AddressLimit limit(allowed);
    io::load_checkpoint(world(), file, target.slices);
  }
  expect_values(target);
  // Sharded differently, so that data are read again for the checksums.
  Tensors shifted;
  const Range mine{static_cast<std::size_t>(rank) * 1000 + 5, static_cast<std::size_t>(rank) * 1000 + 900};
  for (const Shape& s : model) shifted.add(s.name, s.shape, mine, false);
  {
    const AddressLimit limit(allowed);
    io::load_checkpoint(world(), file, shifted.slices);
  }
  expect_values(shifted);
}

TEST(Universal, AFileWithoutNumbersIsReadAsBefore) {
  Scratch scratch(&world().all());
  const int rank = world().all().rank(), size = world().all().size();
  const fs::path file = scratch.path() / io::checkpoint_name(1);
  io::save_checkpoint(world(), file, {1, "deck", {{"a", "b"}}, {{"loss_scale", 2.0}}}, shards(rank, size, true).slices,
                      io::IoMode::automatic);
  if (scratch.owner()) {
    std::vector<io::Extent> raw = io::check_seal(file);
    const hid_t h5 = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    EXPECT_GE(H5Ldelete(h5, "numbers", H5P_DEFAULT), 0);
    H5Fclose(h5);
    io::seal(file, raw);
  }
  world().all().barrier().wait();
  Tensors target = shards(rank, size, false);
  const io::CheckpointState state = io::load_checkpoint(world(), file, target.slices);
  EXPECT_TRUE(state.numbers.empty());
  EXPECT_EQ(state.scalars.at("a"), "b");
  expect_values(target);
}

}  // namespace of_universal_test
}  // namespace shoal::test
