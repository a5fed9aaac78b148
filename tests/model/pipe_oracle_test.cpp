// SPDX-License-Identifier: Apache-2.0
// Logits, losses, gradients and norms of a GPT whose head is untied, tied, or has a direct connection, compared with PyTorch
// in double precision. tests/app/pipe_oracle_test.cpp compares pipelines with the same values.
#include "support/pipe_oracle.hpp"

#include "harness.hpp"
#include "kernels_environment.hpp"

namespace shoal::model::test {
namespace of_pipe_oracle_test {

using shoal::test::PipeLimits;
using shoal::test::PipeOracle;

struct Variant {
  const char* name;
  TiedGradient tied_gradient = TiedGradient::joined;
};

void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

class Pipe : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    SHOAL_NEED(PipeOracle::file());
    oracle_ = std::make_unique<PipeOracle>(GetParam().name);
    options_ = oracle_->options();
    options_.tied_gradient = GetParam().tied_gradient;
  }

  std::unique_ptr<Instance> instance(const Capacity& capacity) const {
    auto made = std::make_unique<Instance>(options_, capacity);
    made->access.for_each([&](const Parameter& p, Span<float> values, Span<const float>) {
      const std::vector<float> initial = oracle_->initial(p);
      std::copy(initial.begin(), initial.end(), values.begin());
    });
    made->access.renew_copies();
    return made;
  }

  std::unique_ptr<PipeOracle> oracle_;
  ModelOptions options_;
};

/// In training a direct connection reads the embeddings elsewhere than in a model for inference alone.
TEST_P(Pipe, LogitsOfEveryPosition) {
  const std::vector<double> expected = oracle_->logits();
  const std::size_t B = oracle_->sequences(), V = options_.vocab_size, T = options_.block_size;
  const MicroBatch whole = oracle_->micro_batch(0, 1);
  for (const bool training : {false, true}) {
    const auto model = instance({B, T, training});
    for (std::size_t length = 1; length <= T; ++length) {
      std::vector<std::int32_t> starts;
      for (std::size_t b = 0; b < B; ++b) {
        const Span<const std::int32_t> row = whole.inputs.subspan(b * T, length);
        starts.insert(starts.end(), row.begin(), row.end());
      }
      std::vector<float> logits(B * V);
      model->model->logits({B, length, starts, {}, 0, 0}, logits);
      for (std::size_t i = 0; i < logits.size(); ++i) {
        const std::size_t at = (i / V * T + length - 1) * V + i % V;
        ASSERT_NEAR(logits[i], expected[at], PipeLimits::logits) << "sequence " << i / V << ", position " << length - 1;
      }
    }
  }
}

TEST_P(Pipe, LogitsOfADecoder) {
  const std::vector<double> expected = oracle_->logits();
  const std::size_t B = oracle_->sequences(), V = options_.vocab_size, T = options_.block_size, prompt = T / 2;
  const MicroBatch whole = oracle_->micro_batch(0, 1);
  const auto model = instance({1, T, false, true});
  Decoder* const decoder = model->model->decoder();
  ASSERT_NE(decoder, nullptr);
  std::vector<float> logits(V);
  for (std::size_t b = 0; b < B; ++b) {
    const Span<const std::int32_t> row = whole.inputs.subspan(b * T, T);
    decoder->prefill(row.first(prompt), logits);
    for (std::size_t length = prompt;; ++length) {
      for (std::size_t v = 0; v < V; ++v) {
        ASSERT_NEAR(logits[v], expected[(b * T + length - 1) * V + v], PipeLimits::logits)
            << "sequence " << b << ", position " << length - 1 << ", symbol " << v;
      }
      if (length == T) break;
      decoder->decode(row[length], logits);
    }
  }
}

TEST_P(Pipe, LossesGradientsAndNormOfMicroBatches) {
  for (const std::size_t chunks : {1U, 2U, 4U, 8U}) {
    SCOPED_TRACE(testing::Message() << chunks << " chunks");
    const std::size_t sequences = oracle_->sequences() / chunks, rows = sequences * options_.block_size;
    const auto model = instance({sequences, options_.block_size});
    std::vector<std::vector<double>> sums;
    double loss = 0;
    for (std::size_t m = 0; m < chunks; ++m) {
      const MicroBatch batch = oracle_->micro_batch(m, chunks);
      const double own =
          model->forward_backward(batch, 1.0F / static_cast<float>(rows * chunks)) / static_cast<double>(rows);
      EXPECT_NEAR(own, oracle_->loss_of(m, chunks), PipeLimits::loss) << "micro-batch " << m;
      EXPECT_NEAR(model->evaluate(batch) / static_cast<double>(rows), own, PipeLimits::loss);
      loss += own / static_cast<double>(chunks);
      model->access.add_copies();
      std::size_t tensor = 0;
      model->access.for_each([&](const Parameter&, Span<float>, Span<const float> g) {
        if (sums.size() == tensor) sums.emplace_back(g.size());
        for (std::size_t i = 0; i < g.size(); ++i) sums[tensor][i] += static_cast<double>(g[i]);
        ++tensor;
      });
    }
    EXPECT_NEAR(loss, oracle_->loss(), PipeLimits::loss);
    double square = 0;
    std::size_t tensor = 0;
    model->access.for_each([&](const Parameter& p, Span<float>, Span<const float>) {
      const std::vector<double> expected = oracle_->gradient(p);
      const double limit = PipeLimits::gradient * shoal::test::largest(expected);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(sums[tensor][i], expected[i], limit) << p.name << ", element " << i;
        square += sums[tensor][i] * sums[tensor][i];
      }
      ++tensor;
    });
    EXPECT_NEAR(std::sqrt(square), oracle_->norm(), PipeLimits::gradient * oracle_->norm());
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, Pipe,
                         ::testing::Values(Variant{"untied"}, Variant{"tied"}, Variant{"tied", TiedGradient::apart},
                                           Variant{"direct"}));

}  // namespace of_pipe_oracle_test
}  // namespace shoal::model::test
