// SPDX-License-Identifier: Apache-2.0
// Properties of all models: memory is taken as planned, dropout depends only on the sample's index in the global batch, bf16
// is close to fp32, errors are sentences.
#include <gmock/gmock.h>

#include "harness.hpp"
#include "kernels_environment.hpp"

namespace shoal::model::test {
namespace of_model_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelOptions changed(ModelOptions options, const std::function<void(ModelOptions&)>& change) {
  change(options);
  return options;
}

/// An Instance has exactly the memory that a counting construction counted: with too little its constructor would fail.
TEST(Memory, IsTakenAsPlannedToTheByte) {
  for (const ModelOptions& options : all_models()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const Capacity& capacity : {Capacity{3, 7, true}, Capacity{3, 7, false}, Capacity{1, 5, false, true}}) {
        const Instance instance(options, capacity, dtype);
        EXPECT_EQ(instance.memory->taken(), instance.counting.taken());
        EXPECT_EQ(instance.memory->taken()[Kind::parameters] + instance.memory->taken()[Kind::gradients], 0U);
      }
    }
  }
}

TEST(Memory, OfEvaluationDoesNotGrowWithDepth) {
  const ModelOptions shallow = tiny_gpt();
  const ModelOptions deep = changed(tiny_gpt(), [](ModelOptions& o) { o.n_layer = 9; });
  EXPECT_EQ(Instance(shallow, {2, 7, false}).counting.taken(), Instance(deep, {2, 7, false}).counting.taken());
}

/// oneDNN chooses its algorithm by shape: the weight gradient of 384 x 1152 needs 0.4 MB of workspace for 508 rows and none
/// for 2048.
TEST(Memory, SufficesForAnySmallerBatch) {
  const ModelOptions wide = changed(tiny_gpt(), [](ModelOptions& o) {
    o.n_layer = 1;
    o.n_head = 6;
    o.n_embd = 384;
    o.block_size = 2048;
  });
  Instance instance(wide, {1, 2048});
  const RandomBatch data(1, 508, wide.vocab_size);
  EXPECT_TRUE(std::isfinite(instance.forward_backward(data.batch)));
  for (const ModelOptions& options : all_models()) {
    for (std::size_t sequences = 1; sequences <= 5; ++sequences) {
      for (std::size_t length = 1; length <= 7; ++length) {
        Instance narrow(options, {5, 7}, DType::bf16);
        EXPECT_TRUE(std::isfinite(narrow.forward_backward(RandomBatch(sequences, length, options.vocab_size).batch)));
      }
    }
  }
}

TEST(Evaluate, IsTheLossOfForwardWithoutDropout) {
  for (const ModelOptions& options : all_models()) {
    Instance instance(options, {3, 7}), small(options, {3, 7, false});
    scramble(instance.access);
    scramble(small.access);
    const RandomBatch data(3, 7, options.vocab_size);
    const double evaluated = instance.evaluate(data.batch);
    EXPECT_EQ(small.evaluate(data.batch), evaluated);
    EXPECT_EQ(small.access.outstanding() + instance.access.outstanding(), 0);
    if (options.dropout == 0) {
      EXPECT_NEAR(instance.forward(data.batch, 1), evaluated, 1e-6 * evaluated);
    } else {
      EXPECT_GT(std::abs(instance.forward(data.batch, 1) - evaluated), 1e-3 * evaluated);
    }
  }
}

class Dropout : public ::testing::Test {
 protected:
  Dropout() : instance_(options_, {4, 7}) { scramble(instance_.access); }
  double loss(const MicroBatch& batch) { return instance_.forward(batch, 1); }

  ModelOptions options_ = changed(tiny_gpt(), [](ModelOptions& o) { o.dropout = 0.2; });
  Instance instance_;
  RandomBatch data_{4, 7, options_.vocab_size};
};

TEST_F(Dropout, RepeatsForTheSameStepAndSample) { EXPECT_EQ(loss(data_.batch), loss(data_.batch)); }

TEST_F(Dropout, DiffersWithStepSampleAndSeed) {
  const double reference = loss(data_.batch);
  MicroBatch other = data_.batch;
  other.step = 1;
  EXPECT_GT(std::abs(loss(other) - reference), 1e-4 * reference);
  other = data_.batch;
  other.first_sample = 4;
  EXPECT_GT(std::abs(loss(other) - reference), 1e-4 * reference);
  Instance seeded(options_, {4, 7}, DType::f32, 2);
  scramble(seeded.access);
  EXPECT_GT(std::abs(seeded.forward(data_.batch, 1) - reference), 1e-4 * reference);
}

TEST_F(Dropout, DoesNotDependOnHowTheBatchIsCut) {
  const double whole = loss(data_.batch);
  for (const std::size_t count : {1U, 2U}) {
    double sum = 0;
    for (std::size_t first = 0; first < 4; first += count) sum += loss(data_.part(first, count));
    EXPECT_NEAR(sum, whole, 1e-6 * whole) << "in micro-batches of " << count;
  }
}

/// The gradients of all biases that are added to the residual stream, and the sum of the positions' gradients. With weights
/// of zero before those biases a gradient comes down the residual stream alone: each is the sum of the same gradients, under
/// the mask of its own place.
std::vector<std::vector<float>> gradients_by_place(double dropout) {
  const ModelOptions options = changed(tiny_gpt(), [=](ModelOptions& o) { o.dropout = dropout; });
  Instance instance(options, {1, 7});
  scramble(instance.access);
  instance.access.for_each([](const Parameter& p, Span<float> values, Span<const float>) {
    if (p.name.ends_with("c_proj.weight")) std::fill(values.begin(), values.end(), 0.0F);
  });
  instance.forward_backward(RandomBatch(1, 7, options.vocab_size).batch);
  std::vector<std::vector<float>> found;
  instance.access.for_each([&](const Parameter& p, Span<float>, Span<const float> gradient) {
    if (!p.name.ends_with("c_proj.bias") && !p.name.ends_with("wpe.weight")) return;
    std::vector<float>& sum = found.emplace_back(options.n_embd, 0.0F);
    for (std::size_t i = 0; i < gradient.size(); ++i) sum[i % options.n_embd] += gradient[i];
  });
  return found;
}

TEST(DropoutMasks, DifferFromPlaceToPlace) {
  for (const auto& [dropout, same] : {std::pair(0.0, true), std::pair(0.2, false)}) {
    const std::vector<std::vector<float>> places = gradients_by_place(dropout);
    ASSERT_EQ(places.size(), 5U) << "the embedding, attention and MLP of two blocks";
    for (std::size_t a = 0; a < places.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const auto near = ::testing::Pointwise(::testing::FloatNear(1e-6F), places[b]);
        if (same) {
          EXPECT_THAT(places[a], near);
        } else {
          EXPECT_THAT(places[a], ::testing::Not(near)) << "places " << a << " and " << b;
        }
      }
    }
  }
}

/// As in GPT-2: the deviations of weights that end a branch shrink with the number of branches.
TEST(InitialValues, KeepTheVarianceOfTheResidualStream) {
  std::size_t ends = 0;
  for (const UnitLayout& unit : layout(changed(tiny_gpt(), [](ModelOptions& o) { o.n_layer = 8; }))) {
    for (const Parameter& p : unit.parameters) {
      const bool ends_branch = p.name.ends_with("c_proj.weight");
      EXPECT_FLOAT_EQ(p.initial_std, p.is_vector() ? 0 : ends_branch ? 0.02F / 4 : 0.02F) << p.name;
      ends += ends_branch ? 1 : 0;
    }
  }
  EXPECT_EQ(ends, 16U);
}

/// bf16 has 8 bits of mantissa: each rounding has an error of up to 2^-9, and a root-mean-square error of 2^-9 / sqrt(3). A
/// value is rounded about 12 times in each block and direction before it reaches a gradient. For 2 blocks in both directions
/// 48 roundings add up to sqrt(48) 2^-9 / sqrt(3) = 0.8 %. Five times as much is allowed.
TEST(Bf16, AgreesWithFp32) {
  for (const ModelOptions& options : all_models()) {
    for (const auto& [what, distance] : distances(options, DType::bf16, RandomBatch(4, 7, options.vocab_size))) {
      EXPECT_LT(distance, 0.04) << name_of(options.kind) << ", " << what;
    }
  }
}

/// In fp32, 50 257 symbols and 400 rows are two chunks of logits; half of the rows are one chunk.
class Chunks : public ::testing::TestWithParam<bool> {};

TEST_P(Chunks, OfLogitsAddUp) {
  const ModelOptions options = changed(tiny_gpt(), [](ModelOptions& o) {
    o.direct = GetParam();
    o.n_layer = 1;
    o.n_embd = 4;
    o.block_size = 100;
    o.vocab_size = 50257;
  });
  const RandomBatch data(4, 100, options.vocab_size);
  Instance whole(options, {4, 100}), half(options, {2, 100});
  const double loss = whole.forward_backward(data.batch);
  const double first = half.forward_backward(data.part(0, 2));
  std::vector<std::vector<float>> sum;
  for (std::size_t u = 0; u < 3; ++u) sum.push_back(half.access.whole_gradient(u));
  const double second = half.forward_backward(data.part(2, 2));
  EXPECT_NEAR(first + second, loss, 1e-6 * loss);
  for (std::size_t u = 0; u < 3; ++u) {
    const std::vector<float>& expected = whole.access.whole_gradient(u);
    std::vector<float> difference = expected;
    for (std::size_t i = 0; i < expected.size(); ++i) difference[i] -= sum[u][i] + half.access.whole_gradient(u)[i];
    EXPECT_LT(norm(difference), 1e-5 * norm(expected)) << whole.access.units()[u].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Direct, Chunks, ::testing::Bool());

// The rows behind the vocabulary take part in matrix products: they must stay zero.
TEST(Head, RowsBehindTheVocabularyHaveNoGradient) {
  struct Case {
    bool tied, direct;
    std::size_t unit, parameter;
  };
  for (const auto& [tied, direct, unit, parameter] :
       {Case{true, false, 0, 0}, Case{false, false, 3, 2}, Case{true, true, 3, 2}, Case{false, true, 3, 3}}) {
    const ModelOptions options = changed(tiny_gpt(), [tied = tied, direct = direct](ModelOptions& o) {
      o.vocab_size = 65;
      o.tied = tied;
      o.direct = direct;
    });
    const RandomBatch data(2, 6, options.vocab_size);
    Instance instance(options, {2, 6});
    instance.forward_backward(data.batch);
    const UnitLayout& layout = instance.access.units()[unit];
    const Parameter& weight = layout.parameters.at(parameter);
    ASSERT_EQ(weight.shape, (std::vector<std::size_t>{65, options.n_embd}));
    const std::vector<float>& gradient = instance.access.whole_gradient(unit);
    const std::size_t begin = weight.range().end, end = weight.offset + 128 * options.n_embd;
    ASSERT_LE(end, gradient.size());
    EXPECT_TRUE(std::all_of(gradient.begin() + static_cast<std::ptrdiff_t>(begin),
                            gradient.begin() + static_cast<std::ptrdiff_t>(end), [](float g) { return g == 0.0F; }));
    EXPECT_NE(gradient[begin - 1], 0.0F);
  }
}

TEST(Refusals, OfABatchThatDoesNotFit) {
  for (const ModelOptions& options : all_models()) {
    Instance instance(options, {2, 6});
    EXPECT_THROW(instance.forward(RandomBatch(3, 6, options.vocab_size).batch, 1), Error);
    EXPECT_THROW(instance.forward(RandomBatch(2, 7, options.vocab_size).batch, 1), Error);
    EXPECT_THROW(Instance(options, {2, 6, false}).forward(RandomBatch(2, 6, options.vocab_size).batch, 1), Error);
    EXPECT_THROW(Instance(options, {2, 8}), Error) << "longer than block_size";
  }
}

TEST(Problems, NameOptionsValuesAndWhatIsAllowed) {
  EXPECT_THAT(problems(tiny_gpt()), ElementsAre());
  EXPECT_THAT(problems(tiny_mlp()), ElementsAre());
  const auto with = [](const std::function<void(ModelOptions&)>& change) { return problems(changed(tiny_gpt(), change)); };
  EXPECT_THAT(with([](ModelOptions& o) { o.n_head = 5; }),
              ElementsAre("model.n_embd = 12 is not a multiple of model.n_head = 5; nearest: 10, 15"));
  EXPECT_THAT(with([](ModelOptions& o) { o.n_head = 20; }), ElementsAre(HasSubstr("nearest: 20")));
  EXPECT_THAT(with([](ModelOptions& o) { o.dropout = 1; }), ElementsAre(HasSubstr("model.dropout = 1: must be in [0, 1)")));
  EXPECT_THAT(with([](ModelOptions& o) { o.n_layer = 0, o.block_size = 0; }),
              ElementsAre(HasSubstr("model.n_layer = 0"), HasSubstr("model.block_size = 0")));
  EXPECT_THAT(with([](ModelOptions& o) { o.kind = ModelKind::mlp, o.dropout = 0.5; }),
              ElementsAre(HasSubstr("mlp has no dropout")));
}

TEST(Flops, AreTheFormulas) {
  ModelOptions w1;  // the character GPT
  w1.n_layer = w1.n_head = 6;
  w1.n_embd = 384;
  w1.block_size = 256;
  w1.vocab_size = 65;
  EXPECT_EQ(flops_per_token(w1), 6.0 * (6 * 12 * 384 * 384 + 65 * 384) + 6 * 6 * 384 * 257);
  ModelOptions w2;  // GPT-2 124M in 50304 rows
  w2.n_layer = w2.n_head = 12;
  w2.n_embd = 768;
  w2.block_size = 256;
  w2.vocab_size = 50304;
  EXPECT_NEAR(flops_per_token(w2), 755.62e6, 0.005e6);
}

TEST(Layout, HasAsManyParametersAsGpt2) {
  ModelOptions gpt2;
  gpt2.n_layer = gpt2.n_head = 12;
  gpt2.n_embd = 768;
  gpt2.block_size = 1024;
  gpt2.vocab_size = 50257;
  EXPECT_EQ(parameter_count(gpt2), 124439808U);
}

}  // namespace of_model_test
}  // namespace shoal::model::test
