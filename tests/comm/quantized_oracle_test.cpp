// SPDX-License-Identifier: Apache-2.0
// Compares the two-step reduce-scatter on 2 nodes of 2 ranks with DeepSpeed's arithmetic (oracles/quantization/qgz.h5), and
// the error of our own rounding with that of DeepSpeed's. (The oracle's third case has one node, so it has no second step
// here.)
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "shoal/comm/quantized.hpp"
#include "support/mpi_main.hpp"
#include "support/oracle.hpp"

namespace shoal::comm {
namespace of_quantized_oracle_test {

using kernels::QuantFormat;
using kernels::QuantRounding;

constexpr std::size_t locals = 2, nodes = 2, ranks = 4;

struct Case {
  std::string name;
  std::size_t group;  ///< elements that share a scale
  /// Relative rms error of DeepSpeed's mean after quantizing twice (quantization.json).
  double deepspeed_error;
};
const std::string in_float = "/float_between_steps/", in_half = "/half_between_steps/";

class QgzOracle : public testing::Test {
 protected:
  void SetUp() override {
    const auto file = shoal::test::shared_data("oracles/quantization/qgz.h5");
    SHOAL_NEED(file);
    ASSERT_EQ(test::world().size(), static_cast<int>(ranks));
    oracle_ = std::make_unique<test::Hdf5>(file);
    find_cases();
    test::world().make_groups(test::comm_options(static_cast<int>(locals)));
    rank_ = static_cast<std::size_t>(test::world().all().rank());
  }
  void TearDown() override { test::world().make_groups(test::comm_options()); }

  /// The cases with the nodes and ranks of this test.
  void find_cases() {
    const auto index = test::read_json(shoal::test::shared_data("oracles/quantization/quantization.json"));
    for (const auto& [what, figures] : index.at("measured").items()) {
      if (!what.starts_with("qgz/") || !what.ends_with("/float_between_steps")) continue;
      const std::string name = what.substr(4, what.find('/', 4) - 4);
      if (oracle_->number("nodes", name) != nodes || oracle_->number("ranks_per_node", name) != locals) continue;
      const std::size_t elements = oracle_->dataset<float>(name + "/gradients").size() / ranks;
      const auto groups = static_cast<std::size_t>(oracle_->number("groups_step1", name));
      cases_.push_back(
          {name, elements / groups, figures.at("rms_error").get<double>() / figures.at("rms_of_mean").get<double>()});
    }
    ASSERT_GE(cases_.size(), 2U);
  }

  /// This rank's row of a dataset with one row per rank.
  template <typename V>
  std::vector<V> of_rank(const std::string& name, std::size_t rank) const {
    const std::vector<V> all = oracle_->dataset<V>(name);
    const std::size_t n = all.size() / ranks;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * n);
    return {begin, begin + static_cast<std::ptrdiff_t>(n)};
  }

  /// This rank's shard of the sum.
  std::vector<float> reduced(const Case& c, QuantRounding rounding) const {
    std::vector<float> gradient = of_rank<float>(c.name + "/gradients", rank_);
    const std::size_t share = gradient.size() / ranks;
    Blocks blocks;
    for (std::size_t b = 0; b < ranks; ++b) blocks.push_back({bytes_of(Span<float>(gradient).subspan(b * share, share))});
    const Hierarchy groups{test::world().all(), test::world().node(), test::world().across()};
    const QuantFormat int4{4, c.group, rounding};
    std::vector<std::byte> scratch(
        quantized_reduce_scratch_bytes(groups.node.size(), groups.across.size(), share, 1, {int4, int4}));
    quantized_reduce_scatter(groups, blocks, DType::f32, {int4, int4}, scratch).wait();
    const auto begin = gradient.begin() + static_cast<std::ptrdiff_t>(rank_ * share);
    return {begin, begin + static_cast<std::ptrdiff_t>(share)};
  }

  std::unique_ptr<test::Hdf5> oracle_;
  std::vector<Case> cases_;
  std::size_t rank_ = 0;
};

int code_at(const std::byte* codes, std::size_t i) {
  const auto both = static_cast<unsigned>(codes[i / 2]);
  const int code = static_cast<int>(i % 2 == 0 ? both >> 4U : both & 15U);
  return code < 8 ? code : code - 16;
}

TEST_F(QgzOracle, SumsWithDeepSpeedsRoundingAreTheOracles) {
  for (const Case& c : cases_) {
    const std::vector<float> sum = reduced(c, QuantRounding::deepspeed);
    const auto share = of_rank<float>(c.name + in_float + "share", rank_);
    ASSERT_EQ(sum.size(), share.size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      ASSERT_EQ(sum[i] / static_cast<float>(nodes), share[i])
          << c.name << ", " << i;  // the oracle divides by the number of nodes
    }
  }
}

/// The codes of both steps are in the order in which they are sent: shards 0 and 2, whose owners have local rank 0, come
/// before 1 and 3.
TEST_F(QgzOracle, CodesOfBothStepsAreTheOracles) {
  for (const Case& c : cases_) {
    const QuantFormat int4{4, c.group, QuantRounding::deepspeed};
    const std::size_t n = of_rank<float>(c.name + "/gradients", 0).size(), share = n / ranks;
    const std::size_t bytes = kernels::quantized_bytes(share, int4), scales = share / c.group * sizeof(float);
    const std::size_t local = rank_ % locals, first = rank_ - local;
    const auto codes1 = of_rank<std::int32_t>(c.name + in_float + "codes_step1", rank_);
    const auto codes2 = of_rank<std::int32_t>(c.name + in_float + "codes_step2", rank_);
    std::vector<std::byte> sent(bytes), sums(bytes);
    for (std::size_t d = 0; d < locals; ++d) {
      for (std::size_t s = 0; s < nodes; ++s) {
        const auto own = of_rank<float>(c.name + "/gradients", rank_);
        kernels::quantize(int4, DType::f32, share, own.data() + (s * locals + d) * share, sent.data());
        const std::size_t at = (d * nodes + s) * share;
        for (std::size_t i = 0; i < share; ++i) ASSERT_EQ(code_at(sent.data() + scales, i), codes1[at + i]) << c.name;
      }
    }
    for (std::size_t s = 0; s < nodes; ++s) {
      std::vector<float> sum(share, 0.0F);
      for (std::size_t r = first; r < first + locals; ++r) {
        const auto gradient = of_rank<float>(c.name + "/gradients", r);
        kernels::quantize(int4, DType::f32, share, gradient.data() + (s * locals + local) * share, sent.data());
        kernels::dequantize_add(int4, share, sent.data(), sum.data());
      }
      kernels::quantize(int4, DType::f32, share, sum.data(), sums.data());
      for (std::size_t i = 0; i < share; ++i) ASSERT_EQ(code_at(sums.data() + scales, i), codes2[s * share + i]) << c.name;
    }
  }
}

/// The same with the rounding of the library between the steps, computed with our kernels on 16-bit numbers.
TEST_F(QgzOracle, HalfPrecisionBetweenTheStepsIsTheOracles) {
  for (const Case& c : cases_) {
    const QuantFormat int4{4, c.group, QuantRounding::deepspeed};
    const std::size_t share = of_rank<float>(c.name + "/gradients", 0).size() / ranks;
    const std::size_t bytes = kernels::quantized_bytes(share, int4), scales = share / c.group * sizeof(float);
    std::vector<std::byte> sent(bytes);
    std::vector<f16> values(share);
    const auto add = [&](std::vector<f16>& sum) {  // each value and each sum is rounded to fp16
      kernels::dequantize(int4, DType::f16, share, sent.data(), values.data());
      for (std::size_t i = 0; i < share; ++i) sum[i] = f16(float(sum[i]) + float(values[i]));
    };
    const std::size_t own_local = rank_ % locals, own_node = rank_ / locals;
    std::vector<f16> total(share);
    for (std::size_t s = 0; s < nodes; ++s) {  // the rank of node s with this local rank, which sends terms of this shard
      const std::size_t sender = s * locals + own_local;
      const auto codes1 = of_rank<std::int32_t>(c.name + in_half + "codes_step1", sender);
      const auto codes2 = of_rank<std::int32_t>(c.name + in_half + "codes_step2", sender);
      const auto steps2 = of_rank<float>(c.name + in_half + "steps_step2", sender);
      std::vector<f16> sum(share);
      for (std::size_t r = s * locals; r < (s + 1) * locals; ++r) {
        const auto gradient = of_rank<float>(c.name + "/gradients", r);
        kernels::quantize(int4, DType::f32, share, gradient.data() + rank_ * share, sent.data());
        for (std::size_t i = 0; r == sender && i < share; ++i) {
          ASSERT_EQ(code_at(sent.data() + scales, i), codes1[(own_local * nodes + own_node) * share + i]) << c.name;
        }
        add(sum);
      }
      kernels::quantize(int4, DType::f16, share, sum.data(), sent.data());
      for (std::size_t i = 0; i < share; ++i) {
        ASSERT_EQ(code_at(sent.data() + scales, i), codes2[own_node * share + i]) << c.name << ", node " << s << ", " << i;
      }
      const float* const steps = steps2.data() + own_node * share / c.group;
      EXPECT_EQ(std::memcmp(sent.data(), steps, scales), 0) << c.name << ", node " << s;
      add(total);
    }
    const auto expected = of_rank<float>(c.name + in_half + "share", rank_);
    for (std::size_t i = 0; i < share; ++i) {
      ASSERT_EQ(float(f16(float(total[i]) / static_cast<float>(nodes))), expected[i]) << c.name << ", " << i;
    }
  }
}

/// For the same bytes and block lengths. All errors must be at most twice the oracle's bound.
TEST_F(QgzOracle, OurOwnRoundingHalvesTheMeansError) {
  for (const Case& c : cases_) {
    for (const QuantRounding rounding : {QuantRounding::deepspeed, QuantRounding::accurate}) {
      const std::vector<float> sum = reduced(c, rounding);
      const auto mean = of_rank<double>(c.name + "/exact_mean", rank_);
      const auto bound = of_rank<float>(c.name + in_half + "error_bound", rank_);
      std::vector<double> squares{0.0, 0.0};
      for (std::size_t i = 0; i < sum.size(); ++i) {
        squares[0] += std::pow(double(sum[i]) / ranks - mean[i], 2.0);
        squares[1] += mean[i] * mean[i];
        ASSERT_LE(std::abs(double(sum[i]) / ranks - mean[i]), 2 * double(bound[i])) << c.name << ", " << i;
      }
      test::world().all().all_reduce(Span<double>(squares), Reduce::sum).wait();
      const double error = std::sqrt(squares[0] / squares[1]);
      RecordProperty(c.name + (rounding == QuantRounding::accurate ? "_accurate" : "_deepspeed"), std::to_string(error));
      if (rounding == QuantRounding::deepspeed) {
        EXPECT_NEAR(error, c.deepspeed_error, 0.001);
      } else {
        EXPECT_LT(error, c.deepspeed_error / 2.0) << c.name;
      }
    }
  }
}

}  // namespace of_quantized_oracle_test
}  // namespace shoal::comm
