// SPDX-License-Identifier: Apache-2.0
// How a model calls its UnitAccess: the guarantees of include/shoal/model/unit_access.hpp.
#include <algorithm>
#include <array>

#include "harness.hpp"
#include "kernels_environment.hpp"
#include "shoal/model/gradient_order.hpp"

namespace shoal::model::test {
namespace of_use_order_test {

/// Records when gradients are asked for, too.
class Recording final : public Uses {
 public:
  explicit Recording(const ModelOptions& options)
      : Uses(options, DType::f32), early(whole.units().size()), asked(early.size()), begun_(early.size()) {}

  float* gradient(int unit) override {
    const auto u = static_cast<std::size_t>(unit);
    if (!begun_[u]) asked[u] = uses.size() - 1;
    begun_[u] = true;
    return whole.gradient(unit);
  }
  void gradient_complete(int unit) override {
    whole.gradient_complete(unit);
    completed.emplace_back(uses.size() - 1, unit);
    begun_[static_cast<std::size_t>(unit)] = false;
    for (std::size_t u = 0; u < begun_.size(); ++u) early[u] = early[u] || begun_[u];
  }

  std::vector<std::pair<std::size_t, int>> completed;  ///< use, or the last one before, and unit
  std::vector<bool> early;         ///< for each unit: another gradient was completed while this one was begun
  std::vector<std::size_t> asked;  ///< for each unit: the use in which, or after which, its gradient was first asked for

 private:
  std::vector<bool> begun_;
};

/// Runs one micro-batch of a model with a Recording.
struct Recorded {
  Recorded(const ModelOptions& options, const Capacity& capacity) : access(options) {
    Memory counting;
    make(options, DType::f32, capacity, 1, counting, access);
    Memory memory(counting.taken());
    const auto model = make(options, DType::f32, capacity, 1, memory, access);
    const RandomBatch data(capacity.sequences, capacity.length, options.vocab_size);
    double loss = 0;
    if (capacity.training) {
      model->forward(0, data.batch, {}, 1, &loss);
      model->backward(0, {});
    } else {
      model->evaluate(data.batch, {}, &loss);
    }
  }
  Recording access;
};

std::vector<ModelOptions> models() {
  std::vector<ModelOptions> all;
  for (const std::size_t layers : {1U, 2U, 3U, 5U, 6U}) {
    ModelOptions tied = tiny_gpt(), own = tiny_gpt(), mlp = tiny_mlp(), direct = direct_gpt();
    tied.dropout = 0.1;
    own.tied = false;
    for (const ModelOptions& options : {tied, own, mlp, direct}) {
      all.push_back(options);
      all.back().n_layer = layers;
    }
  }
  return all;
}

constexpr std::array<std::int64_t, 7> intervals = {0, 1, 2, 3, 4, 9, -1};

std::string name(const ModelOptions& options, std::int64_t interval) {
  return text(name_of(options.kind), options.tied ? " tied" : "", ", ", options.n_layer, " layers, interval ", interval);
}

TEST(UseOrder, AreWhatTheModelAcquires) {
  for (const ModelOptions& options : models()) {
    for (const std::int64_t interval : intervals) {
      for (const bool training : {true, false}) {
        const Capacity capacity{2, 7, training, false, interval};
        const Recorded run(options, capacity);
        EXPECT_EQ(run.access.uses, use_order(options, capacity))
            << name(options, interval) << (training ? "" : ", evaluate");
        EXPECT_EQ(run.access.whole.outstanding(), 0) << name(options, interval);
      }
    }
  }
}

/// 5 blocks in segments of 2 are the segments {1}, {2, 3} and {4, 5}. The last segment is not computed again. The last block
/// of the others is computed again in the same use as its backward.
TEST(UseOrder, OfFiveBlocksTwoAtATime) {
  ModelOptions options = tiny_gpt();
  options.n_layer = 5;
  EXPECT_EQ(use_order(options, {1, 7, true, false, 2}),
            (UseOrder{{0}, {1}, {2}, {3}, {4}, {5}, {6, 0}, {5}, {4}, {2}, {3}, {2}, {1}}));
  EXPECT_EQ(use_order(options, {1, 7, true, false, 0}), use_order(options, {1, 7, true, false, 1}))
      << "one block at a time is computed again in its use for backward";
  EXPECT_EQ(use_order(options, {1, 7, false, false, 2}), (UseOrder{{0}, {1}, {2}, {3}, {4}, {5}, {6, 0}}));
}

TEST(GradientsInOrder, AreCompletedFromTheLastUnitToTheFirst) {
  for (const ModelOptions& options : models()) {
    std::vector<int> expected(options.n_layer + 2);
    for (std::size_t u = 0; u < expected.size(); ++u) expected[u] = static_cast<int>(expected.size() - 1 - u);
    for (const std::int64_t interval : intervals) {
      EXPECT_EQ(Recorded(options, {2, 7, true, false, interval}).access.whole.completed(), expected)
          << name(options, interval);
    }
  }
}

/// The gradients of blocks. That of the embedding, which backward does not use, is begun after all uses.
TEST(GradientsInOrder, AreBegunInTheirUnitsLastUse) {
  for (const ModelOptions& options : models()) {
    for (const std::int64_t interval : intervals) {
      const Recorded run(options, {2, 7, true, false, interval});
      const Recording& seen = run.access;
      for (int unit = 1; unit <= static_cast<int>(options.n_layer); ++unit) {
        const auto last = std::find(seen.uses.rbegin(), seen.uses.rend(), std::vector{unit});
        EXPECT_EQ(seen.asked[static_cast<std::size_t>(unit)], static_cast<std::size_t>(seen.uses.rend() - last) - 1)
            << name(options, interval) << ", unit " << unit;
      }
      if (!seen.early[0]) {
        EXPECT_EQ(seen.asked[0], seen.uses.size() - 1) << name(options, interval);
      }
    }
  }
}

/// Of the passes of a whole model, and of the same in terms of its uses: those after all uses count to the last one.
TEST(GradientsInOrder, AreCompletedInTheUsesOfTheirOrder) {
  for (ModelOptions options : models()) {
    for (const auto tied_gradient : {TiedGradient::joined, TiedGradient::apart}) {
      options.tied_gradient = tied_gradient;
      for (const std::int64_t interval : intervals) {
        const Capacity capacity{2, 7, true, false, interval};
        const UseOrders orders = use_orders(options, capacity);
        std::vector<std::pair<std::size_t, int>> expected;
        std::size_t before = 0;
        const auto add = [&](const UseOrder& uses, const GradientOrder& order) {
          ASSERT_EQ(order.size(), uses.size() + 1);
          for (std::size_t use = 0; use < order.size(); ++use) {
            for (const int unit : order[use]) expected.emplace_back(before + std::min(use, uses.size() - 1), unit);
          }
          before += uses.size();
        };
        add(orders.forward, gradients_of_forward(orders.forward, layout(options), capacity.part));
        add(orders.backward, gradients_of_backward(orders.backward, capacity.part));
        EXPECT_EQ(Recorded(options, capacity).access.completed, expected) << name(options, interval);
      }
    }
  }
}

TEST(GradientsInOrder, OfAPartAreThoseOfItsUnits) {
  ModelOptions options = tiny_gpt();
  options.n_layer = 4;
  options.tied_gradient = TiedGradient::apart;  // unit 6 is the head's copy of the embedding
  Capacity capacity{2, 7, true, false, 0};
  const auto orders_of = [&](Range units) {
    capacity.part.units = units;
    const UseOrders orders = use_orders(options, capacity);
    return std::pair(gradients_of_forward(orders.forward, layout(options), capacity.part),
                     gradients_of_backward(orders.backward, capacity.part));
  };
  EXPECT_EQ(orders_of({0, 3}), std::pair(GradientOrder(4), GradientOrder({{2}, {1}, {0}})));
  EXPECT_EQ(orders_of({3, 4}), std::pair(GradientOrder(2), GradientOrder({{3}, {}})));
  EXPECT_EQ(orders_of({4, 7}), std::pair(GradientOrder({{}, {6, 5}, {}}), GradientOrder({{4}, {}})));
}

TEST(GradientsInOrder, ThatAreEarlyAreMarkedInTheLayout) {
  for (const ModelOptions& options : models()) {
    for (const std::int64_t interval : intervals) {
      const Recorded run(options, {2, 7, true, false, interval});
      const Recording& seen = run.access;
      const std::vector<UnitLayout> units = layout(options);
      for (std::size_t u = 0; u < units.size(); ++u) {
        EXPECT_EQ(seen.early[u], units[u].early_gradient) << name(options, interval) << ", " << units[u].name;
      }
      EXPECT_EQ(units[0].early_gradient, options.kind == ModelKind::gpt && options.tied);
    }
  }
}

/// The head's copy of the embedding is complete before the head, whose direct connection has been written with it.
TEST(GradientsInOrder, OfADirectConnectionBesideACopiedEmbeddingAreEarly) {
  for (const bool direct : {false, true}) {
    ModelOptions options = tiny_gpt();
    options.direct = direct;
    options.tied_gradient = TiedGradient::apart;
    const Recorded run(options, {2, 7, true, false, 0});
    const std::vector<UnitLayout> units = layout(options);
    for (std::size_t u = 0; u < units.size(); ++u) {
      EXPECT_EQ(run.access.early[u], units[u].early_gradient) << units[u].name;
      EXPECT_EQ(units[u].early_gradient, direct && units[u].name == "head");
    }
  }
}

}  // namespace of_use_order_test
}  // namespace shoal::model::test
