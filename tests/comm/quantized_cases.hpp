// SPDX-License-Identifier: Apache-2.0
// Used by all tests of quantized collectives: nodes, blocks, and the two steps of the sum, computed by one rank.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "shoal/base/philox.hpp"
#include "shoal/comm/quantized.hpp"
#include "support/mpi_main.hpp"

namespace shoal::comm::quantized_test {

using kernels::QuantError;
using kernels::QuantFormat;
using kernels::QuantRounding;
using Numbers = std::vector<std::vector<float>>;  // span by span

inline std::size_t world_size() { return static_cast<std::size_t>(test::world().size()); }

/// The ranks, divided into nodes of `locals` ranks.
struct Nodes {
  std::size_t locals, nodes, local, node;
  explicit Nodes(std::size_t ranks_per_node) : locals(ranks_per_node), nodes(world_size() / ranks_per_node) {
    test::world().make_groups(test::comm_options(static_cast<int>(ranks_per_node)));
    local = static_cast<std::size_t>(test::world().node().rank());
    node = static_cast<std::size_t>(test::world().across().rank());
  }
  static Hierarchy groups() { return {test::world().all(), test::world().node(), test::world().across()}; }
};

/// Numbers of ranks per node to test: every divisor of the number of ranks; of six ranks only 2.
inline std::vector<std::size_t> divisions() {
  if (world_size() == 6) return {2};
  std::vector<std::size_t> all;
  for (std::size_t locals = 1; locals <= world_size(); ++locals) {
    if (world_size() % locals == 0) all.push_back(locals);
  }
  return all;
}

class Quantized : public testing::Test {
 protected:
  void TearDown() override { test::world().make_groups(test::comm_options()); }
};

/// A value of a rank's copy of a block.
inline float number(std::size_t rank, std::size_t block, std::size_t span, std::size_t i, std::size_t round = 0) {
  const auto bits = philox(1000 * rank + block, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(span),
                                                 static_cast<std::uint32_t>(round), 0});
  const float wide = uniform(bits[1]) < 0.02F ? 8.0F : 1.0F;
  return (uniform(bits[0]) - 0.5F) * wide;
}

template <typename T>
Numbers numbers_of(std::size_t rank, std::size_t block, const std::vector<std::size_t>& lengths, std::size_t round = 0) {
  Numbers numbers;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    auto& span = numbers.emplace_back(lengths[s]);
    for (std::size_t i = 0; i < span.size(); ++i) span[i] = static_cast<float>(T(number(rank, block, s, i, round)));
  }
  return numbers;
}

/// Lengths of the spans of each block.
using Lengths = std::vector<std::vector<std::size_t>>;
inline std::vector<Lengths> layouts() {
  std::vector<Lengths> all(4);
  for (std::size_t b = 0; b < world_size(); ++b) {
    all[0].push_back({1000});
    all[1].push_back({17, 0, 256 + b, 5000, 5});
    all[2].push_back(b == 0 ? std::vector<std::size_t>{300, 44} : std::vector<std::size_t>{});
    all[3].push_back({1'050'000 + b, 3, 70'000});  // several messages in INT8
  }
  return all;
}

inline std::size_t sum_of(const std::vector<std::size_t>& lengths) {
  std::size_t sum = 0;
  for (const std::size_t length : lengths) sum += length;
  return sum;
}
inline std::size_t codes_of(const std::vector<std::size_t>& lengths, const QuantFormat& format) {
  std::size_t bytes = 0;
  for (const std::size_t length : lengths) bytes += quantized_bytes(length, format);
  return bytes;
}

/// A rank's buffer with its blocks, and gaps between the spans.
template <typename T>
struct Buffer {
  Buffer(const Lengths& lengths, std::size_t rank, std::size_t round = 0) {
    constexpr std::size_t gap = 3;
    std::size_t elements = 0;
    for (const auto& block : lengths) elements += sum_of(block) + gap * block.size();
    data.assign(elements, T(77.0F));
    Span<T> left(data);
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      const Numbers numbers = numbers_of<T>(rank, b, lengths[b], round);
      auto& block = blocks.emplace_back();
      for (const auto& span : numbers) {
        for (std::size_t i = 0; i < span.size(); ++i) left[i] = T(span[i]);
        block.push_back(bytes_of(left.first(span.size())));
        left = left.subspan(span.size() + gap);
      }
    }
  }
  std::vector<T> data;
  Blocks blocks;
};

template <typename T>
std::vector<T> rounded(const std::vector<float>& x) {
  std::vector<T> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = T(x[i]);
  return y;
}

template <typename T>
void expect_block(const std::vector<Span<std::byte>>& got, const Numbers& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t s = 0; s < want.size(); ++s) {
    const std::vector<T> bits = rounded<T>(want[s]);
    ASSERT_EQ(got[s].size(), bits.size() * sizeof(T));
    EXPECT_TRUE(bits.empty() || std::memcmp(got[s].data(), bits.data(), got[s].size()) == 0) << "span " << s;
  }
}

inline std::vector<float> through_codes(const QuantFormat& format, const std::vector<float>& x) {
  std::vector<std::byte> codes(quantized_bytes(x.size(), format));
  kernels::quantize(format, DType::f32, x.size(), x.data(), codes.data());
  std::vector<float> y(x.size());
  kernels::dequantize(format, DType::f32, x.size(), codes.data(), y.data());
  return y;
}

inline void add(std::vector<float>& sum, const std::vector<float>& more, bool first) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = first ? more[i] : sum[i] + more[i];
}

/// The expected sum of the block of local rank `local` of node `node`.
template <typename T>
Numbers expected_sum(const Nodes& n, std::size_t node, std::size_t local, const Lengths& lengths,
                     const ReduceFormats& formats) {
  const std::size_t block = node * n.locals + local;
  const bool all_quantized = formats.node.rounding == QuantRounding::deepspeed;
  Numbers total;
  for (const std::size_t length : lengths[block]) total.emplace_back(length);
  for (std::size_t from = 0; from < n.nodes; ++from) {
    Numbers sums = total;
    for (std::size_t d = 0; d < n.locals; ++d) {
      const Numbers own = numbers_of<T>(from * n.locals + d, block, lengths[block]);
      const bool travels = n.locals > 1 && (d != local || all_quantized);
      for (std::size_t s = 0; s < own.size(); ++s) {
        add(sums[s], travels ? through_codes(formats.node, own[s]) : own[s], d == 0);
      }
    }
    const bool travels = n.nodes > 1 && (from != node || all_quantized);
    for (std::size_t s = 0; s < sums.size(); ++s) {
      add(total[s], travels ? through_codes(formats.across, sums[s]) : sums[s], from == 0);
    }
  }
  return total;
}

inline constexpr QuantFormat int8{8, 256}, int4{4, 256}, as_deepspeed{4, 256, QuantRounding::deepspeed};
inline constexpr ReduceFormats reduce_formats[] = {{int8, int4}, {int4, int4}, {as_deepspeed, as_deepspeed}};

}  // namespace shoal::comm::quantized_test
