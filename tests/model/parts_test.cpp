// SPDX-License-Identifier: Apache-2.0
// A model that is cut into parts, with several micro-batches between forward and backward: losses and gradients have the
// bits of the whole model with one slot, in any order of passes and however much each slot keeps.
#include "kernels_environment.hpp"
#include "parts_harness.hpp"
#include "shoal/model/costs.hpp"

namespace shoal::model::test {
namespace of_parts_test {

std::vector<ModelOptions> models() {
  ModelOptions gpt = tiny_gpt(), mlp = tiny_mlp();
  gpt.tied = false;
  gpt.dropout = 0.2;
  gpt.n_layer = mlp.n_layer = layers;
  return {gpt, mlp};
}

ModelOptions tied(TiedGradient gradient) {
  ModelOptions options = models().front();
  options.tied = true;
  options.tied_gradient = gradient;
  return options;
}

TEST(Parts, HaveTheBitsOfTheWholeModel) {
  std::vector<ModelOptions> all = models();
  all.push_back(tied(TiedGradient::apart));
  for (const std::size_t k : {0U, 2U}) {
    all.push_back(all[k]);
    all.back().direct = true;
  }
  for (const ModelOptions& options : all) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Results expected = whole(options, dtype);
      for (const std::vector<std::size_t>& balance : {std::vector<std::size_t>{5}, {3, 2}, {1, 1, 3}}) {
        for (const bool all_forward_first : {true, false}) {
          const std::vector<Action> actions = all_forward_first ? gpipe(balance.size()) : one_f_one_b(balance.size());
          for (const std::int64_t interval : {0, 1, 2}) {
            for (const std::size_t most_whole : {std::size_t{0}, std::size_t{1}, turns}) {
              const auto gradients = interval == 1 ? Gradients::in_place : Gradients::apart;
              EXPECT_TRUE(Cut(options, dtype, balance, actions, interval, most_whole).run(gradients) == expected)
                  << name_of(options.kind) << ' ' << name_of(dtype) << ", " << balance.size() << " parts, "
                  << (all_forward_first ? "gpipe" : "1f1b") << ", interval " << interval << ", whole slots " << most_whole;
            }
          }
        }
      }
    }
  }
}

/// The gradients of a tied embedding and of the head's copy of it are the two parts of the gradient of the embedding that
/// the head uses itself; all others are equal.
TEST(Parts, ACopiedEmbeddingHasThePartsOfTheGradient) {
  const auto of_units = [](TiedGradient gradient, std::size_t micro_batch) {
    Recording access(tied(gradient), DType::f32);
    Capacity capacity{3, 7};
    Memory counting;
    make(tied(gradient), DType::f32, capacity, 1, counting, access);
    Memory memory(counting.taken());
    const auto model = make(tied(gradient), DType::f32, capacity, 1, memory, access);
    double loss = 0;
    const std::vector<RandomBatch> batches = batches_of(tied(gradient));
    model->forward(0, batches.at(micro_batch).batch, {}, 0.5F, &loss);
    model->backward(0, {});
    std::vector<std::vector<float>> gradients;
    for (std::size_t u = 0; u < access.whole.units().size(); ++u) gradients.push_back(access.whole.whole_gradient(u));
    return gradients;
  };
  for (const std::size_t micro_batch : {0U, 2U}) {
    const auto joined = of_units(TiedGradient::joined, micro_batch), apart = of_units(TiedGradient::apart, micro_batch);
    ASSERT_EQ(apart.size(), joined.size() + 1);
    for (std::size_t u = 1; u < joined.size(); ++u) EXPECT_EQ(apart[u], joined[u]) << "unit " << u;
    ASSERT_EQ(apart.back().size(), joined.front().size());
    float largest = 0, of_head = 0, of_embedding = 0;
    for (const float g : joined.front()) largest = std::max(largest, std::abs(g));
    for (std::size_t i = 0; i < joined.front().size(); ++i) {
      const double sum = double{apart.front()[i]} + apart.back()[i];
      // One token's rows are added up to 21 times, each time with an error of at most half a unit in the last place.
      EXPECT_NEAR(joined.front()[i], sum, 22 * 0x1p-24 * largest) << "element " << i;
      of_head = std::max(of_head, std::abs(apart.back()[i]));
      of_embedding = std::max(of_embedding, std::abs(apart.front()[i]));
    }
    EXPECT_GT(of_head, 0.01F * largest);
    EXPECT_GT(of_embedding, 0.01F * largest);
  }
}

/// Bytes of activations that a part with these units takes.
std::size_t activations(const ModelOptions& options, const Part& part, std::int64_t interval = 0) {
  Recording access(options, DType::f32);
  Capacity capacity{3, 7, true, false, interval};
  capacity.part = part;
  Memory counting;
  make(options, DType::f32, capacity, 1, counting, access);
  return counting.taken()[Kind::activations];
}

/// The middle part of a GPT has the blocks 1 to 4 of the units 0 to 6; its first input crosses the border.
TEST(Parts, TakeMemoryForWhatTheirSlotsKeep) {
  const ModelOptions options = models().front();
  const std::vector<UnitCost> costs = model::costs(options, DType::f32, {3, 7});
  const std::size_t stream = costs[2].input_bytes, block = costs[2].input_bytes + costs[2].kept_bytes;
  const auto middle = [&](std::size_t slots, std::size_t whole, std::int64_t interval = 0) {
    return activations(options, {{1, 5}, slots, whole}, interval);
  };
  EXPECT_EQ(middle(3, 3) - middle(2, 2), 4 * block - stream);
  EXPECT_EQ(middle(3, 3, 2) - middle(2, 2, 2), 2 * block) << "two blocks, and the input of the second segment";
  EXPECT_EQ(middle(1, 0), middle(1, 1)) << "one slot keeps what it computes again";
  EXPECT_EQ(middle(3, 0), middle(1, 0)) << "their inputs cross the border";
  EXPECT_EQ(middle(3, 0, 2) - middle(2, 0, 2), stream) << "the input of the second segment";
  EXPECT_EQ(middle(3, 1), middle(2, 2));

  const auto extra = [&](std::size_t slots, Range units, Range without) {
    return activations(options, {units, slots, slots}) - activations(options, {without, slots, slots});
  };
  const std::size_t tokens = round_up(3 * 7 * sizeof(std::int32_t), 64);  // inputs, or targets
  for (const std::size_t slots : {1U, 3U}) {
    EXPECT_EQ(extra(slots, {2, 7}, {2, 6}), costs.back().kept_bytes + stream + slots * (stream + tokens))
        << "the head: its input is the output of the last block";
    EXPECT_EQ(extra(slots, {0, 5}, {1, 5}), stream + slots * (stream + tokens)) << "the embedding";
  }
}

/// The message of the error with which a part of a model is refused.
std::string refusal(const ModelOptions& options, const Part& part) {
  try {
    activations(options, part);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Parts, ThatCannotBeAreRefused) {
  const ModelOptions joined = tied(TiedGradient::joined), apart = tied(TiedGradient::apart);
  EXPECT_EQ(refusal(joined, {{0, 7}, 1, 1}), "");
  EXPECT_NE(refusal(joined, {{0, 4}, 1, 1}).find("model.tied_gradient = joined in a part of a model"), std::string::npos);
  EXPECT_NE(refusal(joined, {{4, 7}, 1, 1}).find("model.tied_gradient = joined in a part of a model"), std::string::npos);
  EXPECT_NE(refusal(joined, {{0, 7}, 2, 2}).find("model.tied_gradient = joined with 2 micro-batches"), std::string::npos);
  EXPECT_EQ(refusal(apart, {{4, 8}, 2, 2}), "");
  EXPECT_NE(refusal(apart, {{4, 7}, 1, 1}).find("ends with unit 6, within the head"), std::string::npos);
  for (const ModelOptions& options : models()) {
    EXPECT_NE(refusal(options, {{0, 1}, 1, 1}).find("the units 0 to 0 has no layer"), std::string::npos);
    EXPECT_NE(refusal(options, {{6, 7}, 1, 1}).find("the units 6 to 6 has no layer"), std::string::npos);
    EXPECT_NE(refusal(options, {{4, 8}, 1, 1}).find("a model with 7 units"), std::string::npos);
    EXPECT_NE(refusal(options, {{4, 7}, 1, 2}).find("1 slots, of which 2"), std::string::npos);
  }
}

/// The gradient through a direct connection crosses a border as soon as there is one, so that only a whole model keeps it.
TEST(Parts, KeepWhatADirectConnectionNeedsInAWholeModel) {
  ModelOptions options = models().front(), direct = options;
  direct.direct = true;
  const std::size_t stream = model::costs(options, DType::f32, {3, 7})[2].input_bytes;
  const auto more = [&](const Part& part) { return activations(direct, part) - activations(options, part); };
  EXPECT_EQ(more({{0, 7}, 1, 1}), stream);
  EXPECT_EQ(more({{0, 7}, 3, 3}), 3 * stream);
  for (const Range units : {Range{0, 3}, Range{2, 5}, Range{4, 7}}) EXPECT_EQ(more({units, 2, 2}), 0U);
}

TEST(Parts, NeedWhatTheirSkipConnectionCarries) {
  ModelOptions options = models().front();
  options.direct = true;
  const RandomBatch data(3, 7, options.vocab_size);
  for (const Range units : {Range{0, 3}, Range{2, 5}, Range{4, 7}}) {
    Capacity capacity{3, 7};
    capacity.part.units = units;
    Recording access(options, DType::f32);
    Memory counting;
    make(options, DType::f32, capacity, 1, counting, access);
    Memory memory(counting.taken());
    const auto part = make(options, DType::f32, capacity, 1, memory, access);
    const bool first = units.begin == 0, last = units.end == 7;
    Border border(part->border_elements(data.batch) * sizeof(float));
    void* const there = border.data();
    for (const bool in : {false, true}) {
      for (const bool out : {false, true}) {
        SCOPED_TRACE(text("units ", units.begin, " to ", units.end - 1, in ? ", an input" : "", out ? ", an output" : ""));
        const Flow flow{first ? nullptr : there, last ? nullptr : there, in ? there : nullptr, out ? there : nullptr};
        const Flow back{last ? nullptr : there, first ? nullptr : there, flow.skip_in, flow.skip_out};
        if (in != last || out != (first || last)) {
          EXPECT_THROW(part->forward(0, data.batch, flow, 1, nullptr), Error);
        }
        if (in != last || out != first) {
          EXPECT_THROW(part->evaluate(data.batch, flow, nullptr), Error);
        }
        if (in != first || out) {
          EXPECT_THROW(part->backward(0, back), Error);
        }
      }
    }
  }
}

TEST(Parts, NeedTheBordersThatTheyHave) {
  for (const ModelOptions& options : models()) {
    Capacity capacity{3, 7};
    capacity.part.units = {2, 4};
    Recording access(options, DType::f32);
    Memory counting;
    make(options, DType::f32, capacity, 1, counting, access);
    Memory memory(counting.taken());
    const auto part = make(options, DType::f32, capacity, 1, memory, access);
    const RandomBatch data(3, 7, options.vocab_size);
    Border border(part->border_elements(data.batch) * sizeof(float));
    std::vector<float> logits(3 * options.vocab_size);
    EXPECT_THROW(part->forward(0, data.batch, {}, 1, nullptr), Error);
    EXPECT_THROW(part->forward(0, data.batch, {border.data(), nullptr}, 1, nullptr), Error);
    EXPECT_THROW(part->evaluate(data.batch, {nullptr, border.data()}, nullptr), Error);
    EXPECT_THROW(part->backward(0, {border.data(), nullptr}), Error);
    EXPECT_THROW(part->logits(data.batch, logits), Error);
    EXPECT_EQ(part->decoder(), nullptr);
    Instance whole(options, {3, 7});
    EXPECT_THROW(whole.model->forward(0, data.batch, {nullptr, border.data()}, 1, nullptr), Error);
  }
}

}  // namespace of_parts_test
}  // namespace shoal::model::test
