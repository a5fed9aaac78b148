// SPDX-License-Identifier: Apache-2.0
// Sampling, and that the cache of keys and values does not change the results.
#include "shoal/model/generate.hpp"

#include <gmock/gmock.h>

#include "harness.hpp"
#include "kernels_environment.hpp"
#include "shoal/io/safetensors.hpp"
#include "support/oracle.hpp"

namespace shoal::model::test {
namespace of_generate_test {

using ::testing::Each;
using ::testing::ElementsAreArray;

GenerateOptions greedy(std::size_t tokens) {
  GenerateOptions wanted;
  wanted.tokens = tokens;
  wanted.temperature = 0;
  return wanted;
}

/// Logits of transformers, and the 20 tokens of its continuation (the smallest margin is 0.012).
class HuggingFaceGpt : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto folder = shoal::test::shared_data("oracles/hf-gpt2/tiny");
    SHOAL_NEED(folder / "expected.h5");
    expected_ = std::make_unique<shoal::test::Hdf5>(folder / "expected.h5");
    const auto config = shoal::test::read_json(folder / "config.json");
    options_.n_layer = config.at("n_layer");
    options_.n_head = config.at("n_head");
    options_.n_embd = config.at("n_embd");
    options_.block_size = config.at("n_positions");
    options_.vocab_size = config.at("vocab_size");
    loss_ = shoal::test::read_json(folder / "expected.json").at("loss_of_sequence_f64");
    instance_ = std::make_unique<Instance>(options_, Capacity{rows, options_.block_size, false, true});
    const io::Safetensors file(folder / "model.safetensors");
    instance_->access.for_each([&](const Parameter& p, Span<float> values, Span<const float>) {
      file.read(p.name, {0, values.size()}, values);
    });
  }

  static constexpr std::size_t rows = 3, given = 8, whole = 28;
  ModelOptions options_;
  double loss_ = 0;
  std::unique_ptr<shoal::test::Hdf5> expected_;
  std::unique_ptr<Instance> instance_;
};

TEST_F(HuggingFaceGpt, Logits) {
  const auto expected = expected_->dataset<double>("logits_f64");
  const auto inputs = expected_->dataset<std::int32_t>("input_ids");
  const std::size_t V = options_.vocab_size;
  std::vector<float> logits(rows * V);
  instance_->model->logits({rows, given, inputs, {}, 0, 0}, logits);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t v = 0; v < V; ++v) {
      ASSERT_NEAR(logits[r * V + v], expected[((r + 1) * given - 1) * V + v], 5e-5) << "row " << r << ", symbol " << v;
    }
  }
}

TEST_F(HuggingFaceGpt, LogitsOfADecoder) {
  const auto expected = expected_->dataset<double>("logits_f64");
  const auto inputs = expected_->dataset<std::int32_t>("input_ids");
  const std::size_t V = options_.vocab_size, prompt = given / 2;
  std::vector<float> logits(V);
  Decoder* const decoder = instance_->model->decoder();
  ASSERT_NE(decoder, nullptr);
  for (std::size_t r = 0; r < rows; ++r) {
    const Span<const std::int32_t> row = Span<const std::int32_t>(inputs).subspan(r * given, given);
    decoder->prefill(row.first(prompt), logits);
    for (std::size_t length = prompt;; ++length) {
      for (std::size_t v = 0; v < V; ++v) {
        ASSERT_NEAR(logits[v], expected[(r * given + length - 1) * V + v], 5e-5)
            << "row " << r << ", " << length << " tokens";
      }
      if (length == given) break;
      decoder->decode(row[length], logits);
    }
  }
}

TEST_F(HuggingFaceGpt, LossOfTheWholeSequence) {
  const auto sequence = expected_->dataset<std::int32_t>("sequence");
  std::vector<std::int32_t> inputs, targets;
  for (std::size_t r = 0; r < rows; ++r) {
    inputs.insert(inputs.end(), sequence.begin() + static_cast<std::ptrdiff_t>(r * whole),
                  sequence.begin() + static_cast<std::ptrdiff_t>((r + 1) * whole - 1));
    targets.insert(targets.end(), sequence.begin() + static_cast<std::ptrdiff_t>(r * whole + 1),
                   sequence.begin() + static_cast<std::ptrdiff_t>((r + 1) * whole));
  }
  const double loss = instance_->evaluate({rows, whole - 1, inputs, targets, 0, 0});
  EXPECT_NEAR(loss / static_cast<double>(inputs.size()), loss_, 5e-6);
}

TEST_F(HuggingFaceGpt, GreedyContinuation) {
  const auto sequence = expected_->dataset<std::int32_t>("sequence");
  for (std::size_t r = 0; r < rows; ++r) {
    const Span<const std::int32_t> row = Span<const std::int32_t>(sequence).subspan(r * whole, whole);
    EXPECT_THAT(generate(*instance_->model, options_, row.first(given), greedy(whole - given)),
                ElementsAreArray(row.subspan(given)))
        << "row " << r;
  }
}

class DecoderOf : public ::testing::TestWithParam<bool> {};

TEST_P(DecoderOf, GivesTheLogitsOfAWholePass) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    ModelOptions options = tiny_gpt();
    options.direct = GetParam();
    Instance instance(options, {1, 7, false, true}, dtype), whole(options, {1, 7, false}, dtype);
    scramble(instance.access);
    scramble(whole.access);
    const RandomBatch data(1, 7, options.vocab_size);
    const Span<const std::int32_t> tokens = data.inputs;
    std::vector<float> stepwise(options.vocab_size), at_once(options.vocab_size);
    Decoder* const decoder = instance.model->decoder();
    ASSERT_NE(decoder, nullptr);
    decoder->prefill(tokens.first(3), stepwise);
    for (std::size_t length = 3;; ++length) {
      whole.model->logits({1, length, tokens.first(length), {}, 0, 0}, at_once);
      // Sums have another order. In fp32 a sum of 48 terms near 1 (the hidden layer has 48) changes by 48 x 2^-24 = 3e-6 at
      // most, and by a seventh of that if roundings are random; eight of them follow each other. For bf16 this changes some
      // roundings (2^-8) of values near 1; there are twelve in a block. LogitsOfADecoder has an independent oracle.
      const float limit = dtype == DType::f32 ? 1e-5F : 0.1F;
      for (std::size_t v = 0; v < at_once.size(); ++v) EXPECT_NEAR(stepwise[v], at_once[v], limit) << length << " tokens";
      if (length == 7) break;
      decoder->decode(tokens[length], stepwise);
    }
    EXPECT_THROW(decoder->decode(0, stepwise), Error) << "block_size is full";
  }
}

INSTANTIATE_TEST_SUITE_P(Direct, DecoderOf, ::testing::Bool());

TEST(Decoder, IsThereWhereMemoryIs) {
  EXPECT_EQ(Instance(tiny_gpt(), {1, 7, false}).model->decoder(), nullptr);
  EXPECT_NE(Instance(tiny_gpt(), {1, 7, true}).model->decoder(), nullptr);
  EXPECT_EQ(Instance(tiny_mlp(), {1, 7, true, true}).model->decoder(), nullptr);
}

TEST(Generate, IsTheSameWithAndWithoutACache) {
  const ModelOptions options = tiny_gpt();
  Instance cached(options, {1, 7, false, true}), plain(options, {1, 7, false});
  scramble(cached.access);
  scramble(plain.access);
  const std::vector<std::int32_t> prompt = {3, 1};
  GenerateOptions wanted;
  wanted.tokens = 5;  // fills block_size; later tokens have another window
  EXPECT_EQ(generate(*cached.model, options, prompt, wanted), generate(*plain.model, options, prompt, wanted));
}

TEST(Generate, GoesOnBeyondBlockSizeFromItsLastHalf) {
  const ModelOptions options = tiny_gpt();
  Instance cached(options, {1, 7, false, true}), plain(options, {1, 7, false});
  scramble(cached.access);
  scramble(plain.access);
  const std::vector<std::int32_t> prompt = {3, 1, 4, 1, 5, 9};
  std::vector<std::int32_t> all = prompt;
  GenerateOptions wanted;  // random draws: the most likely token of a small model may be the same for different windows
  wanted.tokens = 60;
  generate(*cached.model, options, prompt, wanted, [&](std::int32_t token) { all.push_back(token); });
  ASSERT_EQ(all.size(), prompt.size() + wanted.tokens);
  std::vector<float> logits(options.vocab_size);
  std::size_t begin = 0;
  for (std::size_t next = prompt.size(); next < all.size(); ++next) {
    if (next - begin > 7) begin = next - 3;
    plain.model->logits({1, next - begin, Span<const std::int32_t>(all).subspan(begin, next - begin), {}, 0, 0}, logits);
    EXPECT_EQ(draw(logits, wanted, next - prompt.size()), all[next]) << "token " << next << " from those since " << begin;
  }
}

TEST(Generate, RunsAModelWithoutACacheAndAPromptLongerThanBlockSize) {
  const ModelOptions options = tiny_mlp();
  Instance instance(options, {1, 7, false});
  scramble(instance.access);
  const std::vector<std::int32_t> tail = {1, 2, 3, 4, 5, 6, 7};
  std::vector<std::int32_t> prompt = {9, 9, 9};
  prompt.insert(prompt.end(), tail.begin(), tail.end());
  EXPECT_EQ(generate(*instance.model, options, prompt, greedy(10)), generate(*instance.model, options, tail, greedy(10)));
  EXPECT_EQ(generate(*instance.model, options, prompt, greedy(0)).size(), 0U);
}

TEST(Generate, RefusesABadPromptAndTemperature) {
  const ModelOptions options = tiny_gpt();
  Instance instance(options, {1, 7, false, true});
  const std::vector<std::int32_t> empty, beyond = {0, 19}, good = {0};
  EXPECT_THROW(generate(*instance.model, options, empty, greedy(1)), Error);
  EXPECT_THROW(generate(*instance.model, options, beyond, greedy(1)), Error);
  GenerateOptions cold;
  cold.temperature = -1;
  EXPECT_THROW(generate(*instance.model, options, good, cold), Error);
}

TEST(Draw, FollowsTheProbabilities) {
  const std::vector<float> logits = {std::log(1.0F), std::log(2.0F), std::log(5.0F), std::log(2.0F)};
  std::array<int, 4> counts{};
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) ++counts[static_cast<std::size_t>(draw(logits, {}, static_cast<std::uint64_t>(i)))];
  const std::array<double, 4> expected = {0.1, 0.2, 0.5, 0.2};
  for (std::size_t v = 0; v < 4; ++v) {
    const double error = std::sqrt(draws * expected[v] * (1 - expected[v]));
    EXPECT_NEAR(counts[v], draws * expected[v], 5 * error) << "symbol " << v;
  }
}

TEST(Draw, TemperatureSharpensAndTopKCuts) {
  const std::vector<float> logits = {1.0F, 2.0F, 3.0F, 2.0F};
  GenerateOptions wanted;
  wanted.temperature = 0.01;
  std::vector<std::int32_t> cold, two;
  for (std::uint64_t i = 0; i < 100; ++i) cold.push_back(draw(logits, wanted, i));
  EXPECT_THAT(cold, Each(2));
  wanted.temperature = 1;
  wanted.top_k = 2;  // tokens 1 and 3 are equal: the first one is taken
  for (std::uint64_t i = 0; i < 100; ++i) two.push_back(draw(logits, wanted, i));
  EXPECT_THAT(two, Each(::testing::AnyOf(1, 2)));
  EXPECT_THAT(two, ::testing::Contains(1));
  EXPECT_THAT(two, ::testing::Contains(2));
  EXPECT_EQ(draw(logits, greedy(1), 0), 2);
}

TEST(Draw, IsAFunctionOfSeedSampleAndIndex) {
  const std::vector<float> logits(1000, 0.0F);
  GenerateOptions a, other_seed, other_sample;
  other_seed.seed = 2;
  other_sample.sample = 1;
  EXPECT_EQ(draw(logits, a, 5), draw(logits, a, 5));
  EXPECT_NE(draw(logits, a, 5), draw(logits, a, 6));
  EXPECT_NE(draw(logits, a, 5), draw(logits, other_seed, 5));
  EXPECT_NE(draw(logits, a, 5), draw(logits, other_sample, 5));
}

TEST(Draw, RefusesNaNWhereverItIs) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  GenerateOptions greedy, top;
  greedy.temperature = 0;
  top.top_k = 2;
  for (const std::vector<float>& logits :
       {std::vector<float>{nan, 0, 1}, {0, nan, 1}, {0, 1, nan}, {0, infinity, 1}, {-infinity, -infinity, -infinity}}) {
    for (const GenerateOptions& options : {GenerateOptions{}, greedy, top}) EXPECT_THROW(draw(logits, options, 0), Error);
  }
  EXPECT_EQ(draw(std::vector<float>{-infinity, 0}, {}, 0), 1);
}

}  // namespace of_generate_test
}  // namespace shoal::model::test
