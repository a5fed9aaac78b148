// SPDX-License-Identifier: Apache-2.0
// The reproducible tree where messages arrive in any order, and one rank's of another late: the same bits, and nobody waits
// for ever.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "network.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/tree_reduce.hpp"
#include "tree_cases.hpp"

namespace shoal::comm {
namespace {

using Numbers = std::vector<float>;

/// Blocks of spans that lie apart, all of them small: so messages are packed where they leave and where they arrive.
struct Layout {
  std::size_t spans, length, gap = 3;

  std::size_t elements(int ranks) const { return static_cast<std::size_t>(ranks) * spans * (length + gap); }
  Blocks blocks_in(Numbers& buffer, int ranks) const {
    Blocks blocks(static_cast<std::size_t>(ranks));
    Span<float> rest(buffer);
    for (auto& block : blocks) {
      for (std::size_t s = 0; s < spans; ++s, rest = rest.subspan(length + gap))
        block.push_back(bytes_of(rest.first(length)));
    }
    return blocks;
  }
};

/// Messages arrive in random order, but those from one rank to another only where nothing else is left to arrive.
class Arrivals {
 public:
  Arrivals(Network& network, std::mt19937& random)
      : network_(network), random_(random), late_from_(below(network.size())), late_to_(below(network.size())) {}

  void until_complete(std::vector<Request>& requests) {
    const auto move_on = [&] {
      bool complete = true;
      for (Request& request : requests) complete = request.test() && complete;
      return complete;
    };
    while (!move_on()) {
      require(!network_.ready().empty(), "every rank waits, and no message is under way");
      network_.deliver(next());
    }
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::size_t next() {
    std::vector<std::size_t> in_time;
    for (std::size_t i = 0; i < network_.ready().size(); ++i) {
      const Network::Message& message = *network_.ready()[i].first;
      if (message.from() != late_from_ || message.to() != late_to_) in_time.push_back(i);
    }
    return in_time.empty() ? random_() % network_.ready().size() : in_time[random_() % in_time.size()];
  }

  Network& network_;
  std::mt19937& random_;
  int late_from_, late_to_;
};

class TreeOrder : public testing::TestWithParam<int> {};

TEST_P(TreeOrder, ChangesNoBit) {
  const int ranks = GetParam();
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    Network network(ranks);
    Arrivals arrivals(network, random);
    // Of all blocks together 1 to 5 MiB, in spans of up to 60 KiB: what is packed does not always find room at once.
    Layout layout{};
    layout.length = 5'000 + random() % 10'000;
    layout.spans =
        (std::size_t{1} << 20U) * (1 + random() % 5) / sizeof(float) / layout.length / static_cast<unsigned>(ranks) + 1;

    std::vector<Numbers> buffers;
    for (int r = 0; r < ranks; ++r)
      buffers.push_back(random_numbers<float>(100 * seed + static_cast<unsigned>(r), layout.elements(ranks)));
    Numbers sum = serial_tree(buffers);
    std::vector<std::vector<std::byte>> scratch(
        buffers.size(), std::vector<std::byte>(tree_scratch_bytes(ranks, layout.elements(ranks) * sizeof(float))));
    const auto start_on_each = [&](const auto& start) {
      std::vector<Request> requests;
      for (int r = 0; r < ranks; ++r) {
        const auto i = static_cast<std::size_t>(r);
        requests.push_back(start(network.rank(r), layout.blocks_in(buffers[i], ranks), scratch[i]));
      }
      arrivals.until_complete(requests);
    };
    start_on_each([](Communicator& rank, Blocks blocks, std::vector<std::byte>& memory) {
      return tree_reduce_scatter(rank, std::move(blocks), DType::f32, memory);
    });
    start_on_each([](Communicator& rank, Blocks blocks, std::vector<std::byte>& memory) {
      return tree_all_gather(rank, std::move(blocks), memory);
    });
    const Blocks expected = layout.blocks_in(sum, ranks);
    for (int r = 0; r < ranks; ++r) {
      const Blocks got = layout.blocks_in(buffers[static_cast<std::size_t>(r)], ranks);
      for (std::size_t b = 0; b < got.size(); ++b) {
        for (std::size_t s = 0; s < got[b].size(); ++s) {
          ASSERT_EQ(std::memcmp(got[b][s].data(), expected[b][s].data(), got[b][s].size()), 0)
              << "seed " << seed << ", rank " << r << ", block " << b << ", span " << s;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, TreeOrder, testing::Values(2, 3, 4, 6, 8, 12));

}  // namespace
}  // namespace shoal::comm
