// SPDX-License-Identifier: Apache-2.0
// Activation checkpointing: the results have the bits of a run that saves everything, and the memory is that of the drawing
// in segments.hpp.
#include <bit>

#include "harness.hpp"
#include "kernels_environment.hpp"
#include "model/segments.hpp"

namespace shoal::model::test {
namespace of_checkpointing_test {

ModelOptions with_layers(ModelOptions options, std::size_t layers) {
  options.n_layer = layers;
  return options;
}

std::vector<ModelOptions> models(std::size_t layers) {
  ModelOptions dropout = with_layers(tiny_gpt(), layers), own = dropout;
  dropout.dropout = 0.2;
  own.tied = false;
  return {with_layers(tiny_gpt(), layers), dropout, own, with_layers(direct_gpt(), layers), with_layers(tiny_mlp(), layers)};
}

/// Bits of the losses and of all gradients of three micro-batches. The second one is smaller, and logits and an evaluation
/// are computed before the third one.
std::vector<std::uint32_t> bits(const ModelOptions& options, DType dtype, std::int64_t interval) {
  Instance instance(options, {3, 7, true, false, interval}, dtype);
  scramble(instance.access);
  std::vector<std::uint32_t> all;
  const auto note = [&](double loss) {
    const auto whole = std::bit_cast<std::uint64_t>(loss);
    all.insert(all.end(), {static_cast<std::uint32_t>(whole), static_cast<std::uint32_t>(whole >> 32U)});
    instance.access.for_each([&](const Parameter&, Span<float>, Span<const float> gradient) {
      for (const float g : gradient) all.push_back(std::bit_cast<std::uint32_t>(g));
    });
  };
  RandomBatch data(3, 7, options.vocab_size), small(2, 5, options.vocab_size);
  data.batch.step = 4;
  data.batch.first_sample = 6;
  note(instance.forward_backward(data.batch, 0.5F));
  note(instance.forward_backward(small.batch));
  std::vector<float> logits(3 * options.vocab_size);
  instance.model->logits(data.batch, logits);
  for (const float l : logits) all.push_back(std::bit_cast<std::uint32_t>(l));
  note(instance.evaluate(data.batch));
  data.batch.step = 5;
  note(instance.forward_backward(data.batch));
  EXPECT_EQ(instance.access.outstanding(), 0);
  EXPECT_EQ(instance.memory->taken(), instance.counting.taken());
  return all;
}

TEST(Checkpointing, ChangesNoBit) {
  for (const std::size_t layers : {1U, 2U, 5U, 6U}) {
    for (const ModelOptions& options : models(layers)) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        const std::vector<std::uint32_t> expected = bits(options, dtype, 0);
        for (const std::int64_t interval : {1, 2, 3, 4, 5, 6, 7, 100, -1}) {
          EXPECT_TRUE(bits(options, dtype, interval) == expected)
              << name_of(options.kind) << ", " << layers << " layers, dropout " << options.dropout << ", interval "
              << interval;
        }
      }
    }
  }
}

std::size_t activations(const ModelOptions& options, DType dtype, std::int64_t interval) {
  return Instance(options, {2, options.block_size, true, false, interval}, dtype).memory->taken()[Kind::activations];
}

/// All sizes are whole cache lines of 64 bytes, so that the formulas are exact.
TEST(Checkpointing, OfAGptKeepsASegmentsInputAndOneSegment) {
  ModelOptions options = with_layers(tiny_gpt(), 7);
  options.n_head = 1;
  options.n_embd = 32;
  options.n_inner = 96;
  options.block_size = 16;
  const std::size_t rows = 2 * 16, C = options.n_embd;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::size_t element = dtype == DType::bf16 ? 2 : 4;
    const std::size_t input = rows * C * element;
    const std::size_t statistics = (4 * rows + rows * options.n_head) * sizeof(float);
    const std::size_t block = rows * (6 * C + options.inner()) * element + statistics;  // x, x_mid, qkv, attention, u
    const std::size_t all = activations(options, dtype, 0);
    const auto saved = [&](std::size_t kept_blocks, std::size_t further_inputs) {
      return (options.n_layer - kept_blocks) * block - further_inputs * input;
    };
    EXPECT_EQ(all - activations(options, dtype, 1), saved(1, 6));
    EXPECT_EQ(all - activations(options, dtype, 2), saved(2, 3)) << "{0}, {1, 2}, {3, 4}, {5, 6}";
    EXPECT_EQ(all - activations(options, dtype, 3), saved(3, 2)) << "{0}, {1, 2, 3}, {4, 5, 6}";
    EXPECT_EQ(all - activations(options, dtype, 6), saved(6, 1)) << "{0}, {1, ..., 6}";
    EXPECT_EQ(activations(options, dtype, 7), all);
    EXPECT_EQ(activations(options, dtype, 8), all);
  }
}

TEST(Checkpointing, OfAnMlpKeepsASegmentsOutputAndOneSegment) {
  ModelOptions options = with_layers(tiny_mlp(), 7);
  options.n_inner = 32;
  const std::size_t output = 2 * options.n_inner * sizeof(float);
  const auto outputs = [&](std::int64_t interval) { return activations(options, DType::f32, interval) / output; };
  const std::size_t others = outputs(0) - 7;
  EXPECT_EQ(outputs(1) - others, 7U) << "a layer's output is all that there is";
  EXPECT_EQ(outputs(2) - others, 4U + 1);
  EXPECT_EQ(outputs(3) - others, 3U + 2);
  EXPECT_EQ(outputs(-1), outputs(3)) << "auto";
}

class Decoding : public ::testing::TestWithParam<bool> {};

/// Where it is, it has the bits of that of a model that saves everything.
TEST_P(Decoding, IsLeftOnlyWhereItIsAskedFor) {
  ModelOptions options = with_layers(tiny_gpt(), 4);
  options.direct = GetParam();
  EXPECT_NE(Instance(options, {1, 7, true, false, 0}).model->decoder(), nullptr);
  EXPECT_EQ(Instance(options, {1, 7, true, false, 2}).model->decoder(), nullptr);
  for (const bool training : {true, false}) {
    Instance all(options, {1, 7, true, true, 0}), some(options, {1, 7, training, true, 2});
    const RandomBatch data(1, 6, options.vocab_size);
    const auto decoded = [&](Instance& instance) {
      scramble(instance.access);
      std::vector<float> logits(options.vocab_size);
      Decoder* const decoder = instance.model->decoder();
      EXPECT_NE(decoder, nullptr);
      if (decoder == nullptr) return logits;
      decoder->prefill(data.batch.inputs.first(3), logits);
      for (std::size_t position = 3; position < 6; ++position) decoder->decode(data.inputs[position], logits);
      return logits;
    };
    EXPECT_EQ(decoded(some), decoded(all));
  }
}

INSTANTIATE_TEST_SUITE_P(Direct, Decoding, ::testing::Bool());

TEST(Segments, TheLastOneIsWhole) {
  const Segments segments(8, 3);
  EXPECT_EQ(segments.longest(), 3U);
  EXPECT_EQ(segments.first_of_last_segment(), 5U);
  const std::vector<std::size_t> first = {0, 0, 2, 2, 2, 5, 5, 5};
  for (std::size_t layer = 0; layer < 8; ++layer) {
    EXPECT_EQ(segments.first_of(layer), first[layer]) << "layer " << layer;
    EXPECT_EQ(segments.is_last_of_segment(layer), layer == 1 || layer == 4 || layer == 7) << "layer " << layer;
  }
}

TEST(Segments, AutoIsTheRootOfTheNumberOfLayers) {
  const std::vector<std::pair<std::size_t, std::size_t>> expected = {{1, 1}, {2, 1},  {3, 2},   {6, 2},
                                                                     {7, 3}, {12, 3}, {100, 10}};
  for (const auto& [layers, longest] : expected) EXPECT_EQ(Segments(layers, -1).longest(), longest) << layers << " layers";
  EXPECT_THROW(Segments(4, -2), Error);
}

}  // namespace of_checkpointing_test
}  // namespace shoal::model::test
