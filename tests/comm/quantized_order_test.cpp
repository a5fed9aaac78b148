// SPDX-License-Identifier: Apache-2.0
// The quantized reduce-scatter if messages arrive in any order, and those from one rank to another late: the result has the
// same bits, and no rank waits for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <random>
#include <vector>

#include "network.hpp"
#include "shoal/comm/quantized.hpp"
#include "tree_cases.hpp"

namespace shoal::comm {
namespace of_quantized_order_test {

struct Shape {
  int nodes, locals;
  std::size_t length;  // elements of the longest blocks
  kernels::QuantRounding rounding = kernels::QuantRounding::accurate;
  std::size_t length_of(std::size_t block) const { return length - std::min(length, 2 * (block * 7 % 11)); }
};
std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.nodes << " nodes of " << shape.locals << ", blocks of up to " << shape.length
             << (shape.rounding == kernels::QuantRounding::deepspeed ? ", with DeepSpeed's rounding" : "");
}

class QuantizedOrder : public testing::TestWithParam<Shape> {
 protected:
  /// Each rank's own block at the end.
  std::vector<std::vector<float>> sums(unsigned seed) const {
    const Shape shape = GetParam();
    const int ranks = shape.nodes * shape.locals;
    std::mt19937 random(seed);
    Network network;
    Arrivals arrivals(network, ranks, random);
    std::vector<Member> members;
    std::vector<std::vector<float>> buffers;
    std::vector<std::vector<std::byte>> scratch;
    std::vector<Request> requests;
    const ReduceFormats formats{{.bits = 8, .rounding = shape.rounding}, {.bits = 4, .rounding = shape.rounding}};
    for (int r = 0; r < ranks; ++r) {
      members.push_back(member(network, r));
      buffers.push_back(random_numbers<float>(static_cast<unsigned>(r), shape.length * static_cast<unsigned>(ranks)));
      scratch.emplace_back(quantized_reduce_scratch_bytes(shape.locals, shape.nodes, shape.length, 1, formats));
    }
    for (int r = 0; r < ranks; ++r) {
      const auto i = static_cast<std::size_t>(r);
      const Hierarchy groups{*members[i].all, *members[i].node, *members[i].across};
      Blocks blocks;
      for (std::size_t b = 0; b < buffers.size(); ++b) {
        blocks.push_back({bytes_of(Span<float>(buffers[i]).subspan(b * shape.length, shape.length_of(b)))});
      }
      requests.push_back(quantized_reduce_scatter(groups, std::move(blocks), DType::f32, formats, scratch[i]));
    }
    arrivals.until_complete(requests);
    std::vector<std::vector<float>> own;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const auto begin = buffers[i].begin() + static_cast<std::ptrdiff_t>(i * shape.length);
      own.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(shape.length_of(i)));
    }
    return own;
  }

 private:
  struct Member {
    std::unique_ptr<Communicator> all, node, across;
  };
  static Member member(Network& network, int rank) {
    const Shape shape = GetParam();
    std::vector<int> all, node, across;
    for (int r = 0; r < shape.nodes * shape.locals; ++r) {
      all.push_back(r);
      if (r / shape.locals == rank / shape.locals) node.push_back(r);
      if (r % shape.locals == rank % shape.locals) across.push_back(r);
    }
    return {network.member(all, rank), network.member(node, rank % shape.locals),
            network.member(across, rank / shape.locals)};
  }
};

TEST_P(QuantizedOrder, ChangesNoBit) {
  const auto expected = sums(0);
  for (unsigned seed = 1; seed < 8; ++seed) EXPECT_EQ(sums(seed), expected) << "seed " << seed;
}

// The longest blocks need several messages per exchange, the shortest none.
INSTANTIATE_TEST_SUITE_P(Shapes, QuantizedOrder,
                         testing::Values(Shape{2, 1, 2'000'000}, Shape{4, 1, 200'000}, Shape{3, 1, 1'500'000},
                                         Shape{2, 2, 300'000}, Shape{3, 2, 100'000}, Shape{1, 4, 1'000}, Shape{2, 3, 0}));
// Sums of as many terms as there are nodes, or ranks of a node.
constexpr auto deepspeed = kernels::QuantRounding::deepspeed;
INSTANTIATE_TEST_SUITE_P(ManyTerms, QuantizedOrder,
                         testing::Values(Shape{16, 1, 40}, Shape{16, 1, 40, deepspeed}, Shape{1, 16, 40},
                                         Shape{1, 16, 40, deepspeed}, Shape{4, 5, 40}, Shape{4, 5, 40, deepspeed}));

}  // namespace of_quantized_order_test
}  // namespace shoal::comm
