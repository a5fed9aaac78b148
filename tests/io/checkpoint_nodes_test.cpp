// SPDX-License-Identifier: Apache-2.0
// Checkpoints of nodes with different tensors: the same number of nodes get their own back, any other number gets the mean.
#include <gmock/gmock.h>
#include <hdf5.h>

#include "io/checkpoint/checkpoint_layout.hpp"
#include "io/scratch.hpp"
#include "io/tensors.hpp"
#include "support/mpi_main.hpp"

namespace shoal::test {
namespace of_checkpoint_nodes_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int nodes = 3;
constexpr const char* common = "/parameters/common";
constexpr const char* own = "/parameters/own";
const std::vector<std::size_t> shape = {83000};  // more than is read at a time, and not a multiple of checksum_piece

/// Written by all ranks; each writes a part of every node's tensors.
void save(const std::filesystem::path& file, int of_nodes) {
  const int rank = world().all().rank(), ranks = world().all().size();
  Tensors tensors;
  tensors.add(common, shape, part_of(shape[0], rank, ranks), true);
  for (int n = 0; n < of_nodes; ++n) {
    tensors.add(io::node_dataset(n, own), shape, part_of(shape[0], rank, ranks), true);
  }
  io::save_checkpoint(world(), file, {7, "", {}, {}}, tensors.slices, io::IoMode::automatic);
}

/// Reads a part of the tensors that begins and ends within pieces (io::checksum_piece).
Tensors load(const std::filesystem::path& file, const io::NodeView& view) {
  Tensors tensors;
  for (const char* const name : {common, own}) tensors.add(name, shape, {5, shape[0] - 7}, false);
  io::load_checkpoint(world(), file, tensors.slices, view);
  return tensors;
}

TEST(CheckpointOfNodes, EachNodeGetsItsOwn) {
  const Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000007.h5";
  save(file, nodes);
  const int node = world().all().rank() % nodes;
  const Tensors tensors = load(file, {node, nodes});
  for (const io::TensorSlice& slice : tensors.slices) {
    const std::string name = slice.dataset == own ? io::node_dataset(node, own) : slice.dataset;
    for (std::size_t i = 0; i < slice.values.size(); ++i) ASSERT_EQ(slice.values[i], value_at(name, slice.range.begin + i));
  }
}

TEST(CheckpointOfNodes, AnyOtherNumberGetsTheMean) {
  const Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000007.h5";
  save(file, nodes);
  for (const int readers : {1, 2, 4}) {
    const Tensors tensors = load(file, {world().all().rank() % readers, readers});
    for (const io::TensorSlice& slice : tensors.slices) {
      for (std::size_t i = 0; i < slice.values.size(); ++i) {
        const std::size_t at = slice.range.begin + i;
        const auto of = [&](int n) { return value_at(io::node_dataset(n, own), at); };
        const float mean = ((of(0) + of(1)) + of(2)) / 3.0F;
        ASSERT_EQ(slice.values[i], slice.dataset == own ? mean : value_at(common, at)) << slice.dataset << ' ' << i;
      }
    }
  }
}

TEST(CheckpointOfNodes, TheMeanIsAddedInATree) {
  const Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000007.h5";
  const int rank = world().all().rank(), ranks = world().all().size();
  // -2^24 + 1 can be represented as a float, 2^24 + 1 cannot.
  const float values[] = {16777216.0F, 1.0F, 1.0F, -16777216.0F};
  Tensors tensors;
  for (int n = 0; n < 4; ++n) {
    tensors.add(io::node_dataset(n, own), {16}, part_of(16, rank, ranks), true);
    std::fill(tensors.memory.back()->begin(), tensors.memory.back()->end(), values[n]);
  }
  io::save_checkpoint(world(), file, {7, "", {}, {}}, tensors.slices, io::IoMode::automatic);
  Tensors read;
  read.add(own, {16}, {0, 16}, false);
  io::load_checkpoint(world(), file, read.slices);
  const float tree = ((values[0] + values[1]) + (values[2] + values[3])) / 4;
  for (const float value : *read.memory.front()) EXPECT_EQ(value, tree);
  EXPECT_NE(tree, (((values[0] + values[1]) + values[2]) + values[3]) / 4) << "the order shows";
}

/// An open one takes some 10 KB of rank 0, and on a thousand nodes there are hundreds of thousands.
TEST(CheckpointOfNodes, NoDatasetStaysOpen) {
  const Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000007.h5.partial";
  const int rank = world().all().rank(), ranks = world().all().size();
  Tensors tensors;
  for (int n = 0; n < nodes; ++n) tensors.add(io::node_dataset(n, own), shape, part_of(shape[0], rank, ranks), true);
  io::Catalogue content = io::catalogue(world().all(), tensors.slices);
  io::OpenLayout layout = io::lay_out(world().all(), file, {7, "", {}, {}}, content, tensors.slices);
  if (rank == 0) {
    EXPECT_EQ(H5Fget_obj_count(layout.file.id(), H5F_OBJ_DATASET), 0);
  }
  io::complete(world().all(), file, layout, content, std::vector<std::uint64_t>(tensors.slices.size()));
}

TEST(CheckpointOfNodes, ATensorOfNoNodeIsMissed) {
  const Scratch scratch(&world().all());
  const auto file = scratch.path() / "step_00000007.h5";
  save(file, 0);
  EXPECT_THAT([&] { load(file, {}); }, ThrowsMessage<Error>(HasSubstr("/parameters/own: expected with shape [83000]")));
}

}  // namespace of_checkpoint_nodes_test
}  // namespace shoal::test
