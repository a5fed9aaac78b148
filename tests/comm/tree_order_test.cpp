// SPDX-License-Identifier: Apache-2.0
// The reproducible tree if messages arrive in any order, and those from one rank to another late: the result has the same
// bits, and no rank waits for ever.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "network.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/tree_reduce.hpp"
#include "tree_cases.hpp"

namespace shoal::comm {
namespace of_tree_order_test {

using Numbers = std::vector<float>;

/// Blocks of small spans with gaps between them, so that messages are packed by the sender and unpacked by the receiver.
/// Blocks have different sizes.
struct Layout {
  Layout(int ranks, std::size_t spans, std::size_t length) : length_(length) {
    for (int block = 0; block < ranks; ++block) spans_.push_back(spans + spans / 4 * static_cast<unsigned>(block % 3));
  }
  std::size_t elements() const { return std::accumulate(spans_.begin(), spans_.end(), std::size_t{0}) * (length_ + gap); }
  Blocks blocks_in(Numbers& buffer) const {
    Blocks blocks;
    Span<float> rest(buffer);
    for (const std::size_t spans : spans_) {
      blocks.emplace_back();
      for (std::size_t s = 0; s < spans; ++s, rest = rest.subspan(length_ + gap)) {
        blocks.back().push_back(bytes_of(rest.first(length_)));
      }
    }
    return blocks;
  }

 private:
  static constexpr std::size_t gap = 3;
  std::vector<std::size_t> spans_;  // of each block
  std::size_t length_;
};

struct Size {
  int ranks;
  std::size_t most_mib;  // limit of the size of all blocks together
};
std::ostream& operator<<(std::ostream& out, const Size& size) {
  return out << size.ranks << " ranks, up to " << size.most_mib << " MiB";
}

class TreeOrder : public testing::TestWithParam<Size> {};

TEST_P(TreeOrder, ChangesNoBit) {
  const int ranks = GetParam().ranks;
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    Network network(seed % 2 == 0 ? 1 : ranks);  // ranks per node
    Arrivals arrivals(network, ranks, random);
    std::vector<int> group(static_cast<std::size_t>(ranks));
    std::iota(group.begin(), group.end(), 0);
    std::vector<std::unique_ptr<Communicator>> members;
    for (int r = 0; r < ranks; ++r) members.push_back(network.member(group, r));
    const std::size_t bytes = (std::size_t{1} << 20U) * (1 + random() % GetParam().most_mib);
    const std::size_t length = 5'000 + random() % 10'000;  // up to 60 KiB
    const Layout layout(ranks, bytes / sizeof(float) / length / static_cast<unsigned>(ranks), length);

    std::vector<Numbers> buffers;
    std::vector<std::vector<std::byte>> scratch;
    for (int r = 0; r < ranks; ++r) {
      buffers.push_back(random_numbers<float>(100 * seed + static_cast<unsigned>(r), layout.elements()));
      scratch.emplace_back(tree_scratch_bytes(ranks, layout.elements() * sizeof(float)));
    }
    Numbers sum = serial_tree(buffers);
    const auto on_each_rank = [&](const auto& start) {
      std::vector<Request> requests;
      for (int r = 0; r < ranks; ++r) {
        const auto i = static_cast<std::size_t>(r);
        requests.push_back(start(*members[i], layout.blocks_in(buffers[i]), scratch[i]));
      }
      arrivals.until_complete(requests);
    };
    on_each_rank([](Communicator& rank, Blocks blocks, std::vector<std::byte>& memory) {
      return tree_reduce_scatter(rank, std::move(blocks), DType::f32, memory);
    });
    on_each_rank([](Communicator& rank, Blocks blocks, std::vector<std::byte>& memory) {
      return tree_all_gather(rank, std::move(blocks), memory);
    });
    const Blocks expected = layout.blocks_in(sum);
    for (int r = 0; r < ranks; ++r) {
      const Blocks got = layout.blocks_in(buffers[static_cast<std::size_t>(r)]);
      for (std::size_t b = 0; b < got.size(); ++b) {
        for (std::size_t s = 0; s < got[b].size(); ++s) {
          ASSERT_EQ(std::memcmp(got[b][s].data(), expected[b][s].data(), got[b][s].size()), 0)
              << "seed " << seed << ", rank " << r << ", block " << b << ", span " << s;
        }
      }
    }
  }
}

/// The memory is planned for the largest message and used for smaller ones, too, so it must not shrink if bytes increase.
TEST(TreeScratch, IsNoLessForMoreBytes) {
  for (const int ranks : {2, 3, 101, 404}) {
    for (std::size_t bytes = 64; bytes < (std::size_t{1} << 16U); bytes += 64) {
      EXPECT_LE(tree_scratch_bytes(ranks, bytes - 64), tree_scratch_bytes(ranks, bytes)) << ranks << " ranks, " << bytes;
    }
  }
}

// An exchange of 16 MiB or more needs several batches; among an odd number of ranks fewer bytes are enough for that. Within
// a node, packed messages sometimes wait for memory. For 21 ranks there is only memory for smaller messages.
INSTANTIATE_TEST_SUITE_P(Ranks, TreeOrder,
                         testing::Values(Size{2, 40}, Size{3, 5}, Size{4, 5}, Size{6, 5}, Size{8, 5}, Size{12, 5},
                                         Size{21, 3}));

}  // namespace of_tree_order_test
}  // namespace shoal::comm
