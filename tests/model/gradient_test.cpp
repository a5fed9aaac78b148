// SPDX-License-Identifier: Apache-2.0
// Compares the gradient of each tensor with finite differences of the loss, which is summed in double.
#include <array>

#include "harness.hpp"
#include "kernels_environment.hpp"

namespace shoal::model::test {
namespace of_gradient_test {

struct Case {
  std::string name;
  ModelOptions options;
  std::size_t length;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Case with(const std::string& name, ModelOptions options, const std::function<void(Case&)>& change = {}) {
  Case c{name, std::move(options), 0};
  c.length = c.options.block_size;
  if (change) change(c);
  return c;
}

std::vector<Case> cases() {
  return {with("tied", tiny_gpt()),
          with("free_head", tiny_gpt(), [](Case& c) { c.options.tied = false; }),
          with("n_inner", tiny_gpt(), [](Case& c) { c.options.n_inner = 17; }),
          with("dropout", tiny_gpt(), [](Case& c) { c.options.dropout = 0.3; }),
          with("dropout_free_head", tiny_gpt(), [](Case& c) { c.options.dropout = 0.3, c.options.tied = false; }),
          with("short_sequences", tiny_gpt(), [](Case& c) { c.length = 4; }),
          with("short_sequences_free_head", tiny_gpt(), [](Case& c) { c.length = 4, c.options.tied = false; }),
          with("one_layer", tiny_gpt(), [](Case& c) { c.options.n_layer = 1; }),
          with("direct", tiny_gpt(), [](Case& c) { c.options.direct = true; }),
          with("direct_dropout_free_head", tiny_gpt(),
               [](Case& c) { c.options.direct = true, c.options.dropout = 0.3, c.options.tied = false; }),
          with("direct_short_sequences", tiny_gpt(), [](Case& c) { c.length = 4, c.options.direct = true; }),
          with("mlp", tiny_mlp()),
          with("mlp_one_layer", tiny_mlp(), [](Case& c) { c.options.n_layer = 1; }),
          with("mlp_short_sequences", tiny_mlp(), [](Case& c) { c.length = 4; })};
}

class Gradients : public ::testing::TestWithParam<Case> {};

/// Slope of the loss along `direction` in the values of one tensor, by fourth-order central differences.
double slope(Instance& instance, const MicroBatch& batch, Span<float> values, const std::vector<double>& direction) {
  constexpr double h = 4e-3;
  const std::vector<float> kept(values.begin(), values.end());
  const auto loss_at = [&](double distance) {
    for (std::size_t i = 0; i < kept.size(); ++i) {
      values[i] = static_cast<float>(static_cast<double>(kept[i]) + distance * direction[i]);
    }
    return instance.forward(batch, 1);
  };
  const double near = loss_at(h) - loss_at(-h);
  const double far = loss_at(2 * h) - loss_at(-2 * h);
  std::copy(kept.begin(), kept.end(), values.begin());
  return (8 * near - far) / (12 * h);
}

std::vector<double> random_direction(std::size_t n, std::uint32_t number) {
  std::vector<double> direction(n);
  double square = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Philox4 bits = philox(5, {static_cast<std::uint32_t>(i), number, 0, 0});
    direction[i] = box_muller(bits[0], bits[1])[0];
    square += direction[i] * direction[i];
  }
  for (double& d : direction) d /= std::sqrt(square);
  return direction;
}

TEST_P(Gradients, AgreeWithFiniteDifferences) {
  const Case& c = GetParam();
  constexpr std::size_t sequences = 3;
  Instance instance(c.options, {sequences, c.length});
  scramble(instance.access);
  RandomBatch data(sequences, c.length, c.options.vocab_size);
  data.batch.step = 3;
  data.batch.first_sample = 8;
  instance.forward_backward(data.batch);

  // Copies, since each forward pass overwrites the head's gradients.
  std::vector<std::vector<float>> gradients;
  instance.access.for_each(
      [&](const Parameter&, Span<float>, Span<const float> g) { gradients.emplace_back(g.begin(), g.end()); });
  std::size_t tensor = 0;
  instance.access.for_each([&](const Parameter& p, Span<float> values, Span<const float>) {
    const std::vector<float>& g = gradients[tensor++];
    const double length = norm(g);
    ASSERT_TRUE(std::isfinite(length)) << p.name;
    std::vector<double> along(g.begin(), g.end());
    for (double& a : along) a /= length;
    for (std::uint32_t draw = 0; draw < 4; ++draw) {
      const std::vector<double> direction = draw == 0 ? along : random_direction(g.size(), draw);
      double expected = 0;
      for (std::size_t i = 0; i < g.size(); ++i) expected += direction[i] * static_cast<double>(g[i]);
      // The loss of 21 predictions has rounding errors near 1e-6; divided by 12 h / 8, near 1e-2 / 2, these are 2e-4.
      EXPECT_NEAR(slope(instance, data.batch, values, direction), expected, 2e-3 * length + 1e-3)
          << p.name << (draw == 0 ? ", along the gradient" : ", along a random direction");
    }
  });
}

TEST_P(Gradients, AreLinearInTheirScale) {
  const Case& c = GetParam();
  Instance once(c.options, {2, c.length}), scaled(c.options, {2, c.length});
  scramble(once.access);
  scramble(scaled.access);
  const RandomBatch data(2, c.length, c.options.vocab_size);
  const double loss = once.forward_backward(data.batch);
  EXPECT_EQ(scaled.forward_backward(data.batch, 0.25F), loss) << "the loss itself is not scaled";
  for (std::size_t u = 0; u < once.access.units().size(); ++u) {
    for (std::size_t i = 0; i < once.access.whole_gradient(u).size(); ++i) {
      EXPECT_EQ(scaled.access.whole_gradient(u)[i], 0.25F * once.access.whole_gradient(u)[i])
          << "unit " << u << ", element " << i << ": a power of two scales without rounding";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Gradients, ::testing::ValuesIn(cases()), [](const auto& c) { return c.param.name; });

/// The gaps between tensors are not written, and every element of a tensor is.
TEST(Gradients, AreWrittenWholeAndLeaveGapsAlone) {
  for (const Case& c : cases()) {
    Instance instance(c.options, {2, c.length});
    const RandomBatch data(2, c.length, c.options.vocab_size);
    instance.forward_backward(data.batch);
    for (std::size_t u = 0; u < instance.access.units().size(); ++u) {
      const UnitLayout& unit = instance.access.units()[u];
      std::vector<bool> of_a_tensor(unit.elements);
      for (const Parameter& p : unit.parameters) {
        for (std::size_t i = p.range().begin; i < p.range().end; ++i) of_a_tensor[i] = true;
      }
      for (std::size_t i = 0; i < unit.elements; ++i) {
        const float g = instance.access.whole_gradient(u)[i];
        EXPECT_TRUE(of_a_tensor[i] ? std::isfinite(g) : g == 0)
            << c.name << ", " << unit.name << ", element " << i << ": " << g;
      }
    }
  }
}

TEST(Gradients, AreCompletedFromTheLastUnitToTheFirst) {
  for (const Case& c : cases()) {
    Instance instance(c.options, {2, c.length});
    const RandomBatch data(2, c.length, c.options.vocab_size);
    instance.forward(data.batch, 1);
    EXPECT_EQ(instance.access.completed(), std::vector{static_cast<int>(instance.access.units().size()) - 1}) << c.name;
    instance.model->backward(0, {});
    std::vector<int> expected;
    for (int u = static_cast<int>(instance.access.units().size()); u-- > 0;) expected.push_back(u);
    EXPECT_EQ(instance.access.completed(), expected) << c.name;
    EXPECT_EQ(instance.access.outstanding(), 0) << c.name;
  }
}

}  // namespace of_gradient_test
}  // namespace shoal::model::test
