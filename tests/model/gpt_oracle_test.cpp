// SPDX-License-Identifier: Apache-2.0
// Compares one step and ten steps of a tiny GPT-2 with transformers and PyTorch in double precision (gpt_step_a.h5). The
// limits for a program in float come with the file: they follow from the spread of PyTorch's own float32 runs.
#include <algorithm>

#include "harness.hpp"
#include "kernels_environment.hpp"
#include "shoal/kernels/optimizer.hpp"
#include "support/oracle.hpp"

namespace shoal::model::test {
namespace of_gpt_oracle_test {

class GptOracle : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto file = shoal::test::shared_data("oracles/gpt-step/gpt_step_a.h5");
    SHOAL_NEED(file);
    oracle_ = std::make_unique<shoal::test::Hdf5>(file);
    const auto size = [&](const char* attribute) { return static_cast<std::size_t>(oracle_->number(attribute)); };
    options_.n_layer = size("n_layer");
    options_.n_head = size("n_head");
    options_.n_embd = size("n_embd");
    options_.block_size = size("block");
    options_.vocab_size = size("vocab");
    batch_size_ = size("batch");
    inputs_ = oracle_->dataset<std::int32_t>("tokens/x");
    targets_ = oracle_->dataset<std::int32_t>("tokens/y");
  }

  std::unique_ptr<Instance> instance(bool training = true) {
    auto made = std::make_unique<Instance>(options_, Capacity{batch_size_, options_.block_size, training});
    made->access.for_each([&](const Parameter& p, Span<float> values, Span<const float>) {
      const std::vector<float> initial = oracle_->dataset<float>("init/" + p.name);
      ASSERT_EQ(initial.size(), values.size()) << p.name;
      std::copy(initial.begin(), initial.end(), values.begin());
    });
    made->access.renew_copies();
    return made;
  }

  MicroBatch batch(std::size_t step) const {
    const std::size_t rows = batch_size_ * options_.block_size;
    return {batch_size_,
            options_.block_size,
            Span<const std::int32_t>(inputs_).subspan(step * rows, rows),
            Span<const std::int32_t>(targets_).subspan(step * rows, rows),
            static_cast<std::uint32_t>(step),
            0};
  }

  /// In theory the key part of the bias of q, k, v has no gradient, since softmax is invariant under a shift of all scores.
  /// Its gradient is rounding error only, from which Adam makes steps as large as others.
  bool is_key_bias(const Parameter& p, std::size_t i) const {
    return p.name.ends_with("attn.c_attn.bias") && i >= options_.n_embd && i < 2 * options_.n_embd;
  }

  ModelOptions options_;
  std::size_t batch_size_ = 0;
  std::unique_ptr<shoal::test::Hdf5> oracle_;
  std::vector<std::int32_t> inputs_, targets_;
};

TEST_F(GptOracle, LogitsOfEveryPosition) {
  const auto expected = oracle_->dataset<double>("first/f64/logits");
  const auto model = instance(false);
  const std::size_t V = options_.vocab_size, T = options_.block_size;
  for (std::size_t length = 1; length <= T; ++length) {
    std::vector<std::int32_t> starts;
    for (std::size_t b = 0; b < batch_size_; ++b) {
      starts.insert(starts.end(), inputs_.begin() + static_cast<std::ptrdiff_t>(b * T),
                    inputs_.begin() + static_cast<std::ptrdiff_t>(b * T + length));
    }
    std::vector<float> logits(batch_size_ * V);
    model->model->logits({batch_size_, length, starts, {}, 0, 0}, logits);
    for (std::size_t b = 0; b < batch_size_; ++b) {
      for (std::size_t v = 0; v < V; ++v) {
        ASSERT_NEAR(logits[b * V + v], expected[(b * T + length - 1) * V + v], 1e-5)
            << "sequence " << b << ", position " << length - 1 << ", symbol " << v;
      }
    }
  }
}

class GptGradients : public GptOracle, public ::testing::WithParamInterface<TiedGradient> {};

TEST_P(GptGradients, LossAndEveryGradient) {
  options_.tied_gradient = GetParam();
  const auto model = instance();
  const double rows = static_cast<double>(batch_size_ * options_.block_size);
  const double loss = oracle_->dataset<double>("first/f64/loss")[0];
  EXPECT_NEAR(model->evaluate(batch(0)) / rows, loss, 5e-6);
  EXPECT_NEAR(model->forward_backward(batch(0), static_cast<float>(1 / rows)) / rows, loss, 5e-6);
  model->access.add_copies();
  double square = 0;
  model->access.for_each([&](const Parameter& p, Span<float>, Span<const float> g) {
    const auto expected = oracle_->dataset<double>("first/f64/grads/" + p.name);
    double largest = 0;
    for (const double e : expected) largest = std::max(largest, std::abs(e));
    for (std::size_t i = 0; i < g.size(); ++i) {
      ASSERT_NEAR(g[i], expected[i], 1e-5 * largest + 1e-8) << p.name << ", element " << i;
    }
    square += norm(g) * norm(g);
  });
  EXPECT_NEAR(std::sqrt(square), oracle_->dataset<double>("first/f64/grad_norm")[0], 1e-5 * std::sqrt(square));
}

INSTANTIATE_TEST_SUITE_P(Tied, GptGradients, ::testing::Values(TiedGradient::joined, TiedGradient::apart));

/// The gradients of micro-batches add up to the gradient of the whole batch.
TEST_F(GptOracle, GradientsOfMicroBatchesAddUp) {
  const auto model = instance();
  const std::size_t rows = batch_size_ * options_.block_size;
  std::vector<std::vector<double>> sums;
  for (std::size_t first = 0; first < batch_size_; first += 2) {
    MicroBatch cut = batch(0);
    cut.sequences = 2;
    cut.inputs = cut.inputs.subspan(first * cut.length, 2 * cut.length);
    cut.targets = cut.targets.subspan(first * cut.length, 2 * cut.length);
    model->forward_backward(cut, 1.0F / static_cast<float>(rows));
    std::size_t tensor = 0;
    model->access.for_each([&](const Parameter&, Span<float>, Span<const float> g) {
      if (sums.size() == tensor) sums.emplace_back(g.size());
      for (std::size_t i = 0; i < g.size(); ++i) sums[tensor][i] += static_cast<double>(g[i]);
      ++tensor;
    });
  }
  std::size_t tensor = 0;
  model->access.for_each([&](const Parameter& p, Span<float>, Span<const float>) {
    const auto expected = oracle_->dataset<double>("first/f64/grads/" + p.name);
    double largest = 0;
    for (const double e : expected) largest = std::max(largest, std::abs(e));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(sums[tensor][i], expected[i], 1e-5 * largest + 1e-8) << p.name << ", element " << i;
    }
    ++tensor;
  });
}

/// The update of a tensor by one optimizer, after clipping.
struct Variant {
  std::string name;
  bool decay_matrices, decay_vectors, decay_as_l2, sgd;
};

void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

class TenSteps : public GptOracle, public ::testing::WithParamInterface<Variant> {
 protected:
  void update(const Parameter& p, Span<float> values, Span<const float> gradient, float clip, std::size_t step) {
    const Variant& v = GetParam();
    std::vector<float>& first = first_moments_[p.name];
    std::vector<float>& second = second_moments_[p.name];
    first.resize(values.size());
    second.resize(values.size());
    const float decay =
        (p.is_vector() ? v.decay_vectors : v.decay_matrices) ? static_cast<float>(oracle_->number("weight_decay")) : 0;
    if (v.sgd) {
      const kernels::SgdStep rule{static_cast<float>(oracle_->number("sgd_lr")), 0.9F, 0, false, step == 0, clip};
      kernels::sgd(values.size(), rule, gradient.data(), {.master = values.data(), .buffer = first.data()}, {});
      return;
    }
    const double beta1 = 0.9, beta2 = 0.999;
    const double t = static_cast<double>(step + 1);
    kernels::AdamWStep rule{static_cast<float>(oracle_->number("lr")),
                            static_cast<float>(beta1),
                            static_cast<float>(beta2),
                            1e-8F,
                            decay,
                            static_cast<float>(1 - std::pow(beta1, t)),
                            static_cast<float>(1 - std::pow(beta2, t)),
                            clip};
    std::vector<float> used(gradient.begin(), gradient.end());
    if (v.decay_as_l2) {
      for (std::size_t i = 0; i < used.size(); ++i) used[i] = used[i] * clip + decay * values[i];
      rule.gradient_scale = 1;
      rule.weight_decay = 0;
    }
    kernels::adamw(values.size(), rule, used.data(),
                   {.master = values.data(), .first = first.data(), .second = second.data()}, {});
  }

  struct Step {
    double loss, norm;
  };
  Step take_step(Instance& model, std::size_t step) {
    const double rows = static_cast<double>(batch_size_ * options_.block_size);
    const double loss = model.forward_backward(batch(step), static_cast<float>(1 / rows)) / rows;
    double square = 0;
    model.access.for_each([&](const Parameter&, Span<float>, Span<const float> g) { square += norm(g) * norm(g); });
    const auto clip = static_cast<float>(std::min(1.0, oracle_->number("clip") / (std::sqrt(square) + 1e-6)));
    model.access.for_each(
        [&](const Parameter& p, Span<float> values, Span<const float> g) { update(p, values, g, clip, step); });
    return {loss, std::sqrt(square)};
  }

  void expect_parameters(Instance& model, const std::string& dataset, double limit) {
    model.access.for_each([&](const Parameter& p, Span<float> values, Span<const float>) {
      const auto expected = oracle_->dataset<double>("train/" + GetParam().name + "/f64/" + dataset + "/" + p.name);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!GetParam().sgd && is_key_bias(p, i)) continue;
        ASSERT_NEAR(values[i], expected[i], limit) << dataset << ", " << p.name << ", element " << i;
      }
    });
  }

  void expect_moments(Instance& model, const std::string& moment,
                      const std::map<std::string, std::vector<float>>& moments) const {
    model.access.for_each([&](const Parameter& p, Span<float> values, Span<const float>) {
      const auto expected = oracle_->dataset<double>("train/" + GetParam().name + "/f64/" + moment + p.name);
      double largest = 0;
      for (const double e : expected) largest = std::max(largest, std::abs(e));
      for (std::size_t i = 0; i < values.size(); ++i) {
        // Ten gradients, each within 1e-5 of its largest element, of parameters that differ by up to 1e-5; squares double
        // it.
        ASSERT_NEAR(moments.at(p.name)[i], expected[i], 1e-4 * largest + 1e-8) << moment << p.name << ", element " << i;
      }
    });
  }

  std::map<std::string, std::vector<float>> first_moments_, second_moments_;
};

TEST_P(TenSteps, LossesNormsAndParameters) {
  const std::string group = "train/" + GetParam().name + "/f64/";
  const auto losses = oracle_->dataset<double>(group + "losses");
  const auto norms = oracle_->dataset<double>(group + "grad_norms");
  const auto model = instance();
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const Step taken = take_step(*model, step);
    EXPECT_NEAR(taken.loss, losses[step], 5e-6) << "step " << step;
    EXPECT_NEAR(taken.norm, norms[step], 1e-5 * norms[step]) << "step " << step;
    if (step == 0) expect_parameters(*model, "params_step1", 2e-6);
  }
  expect_parameters(*model, "params_step10", 1e-5);
}

/// Without clipping, or with a gradient that is wrong by a factor, Adam's parameters hardly change, but its second moment
/// does.
TEST_P(TenSteps, Moments) {
  const auto model = instance();
  for (std::size_t step = 0; step < 10; ++step) take_step(*model, step);
  if (!GetParam().sgd) expect_moments(*model, "exp_avg/", first_moments_);
  expect_moments(*model, GetParam().sgd ? "momentum_buffer/" : "exp_avg_sq/",
                 GetParam().sgd ? first_moments_ : second_moments_);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, TenSteps,
                         ::testing::Values(Variant{"adamw_decay2d", true, false, false, false},
                                           Variant{"adamw_decayall", true, true, false, false},
                                           Variant{"adam_l2", true, true, true, false},
                                           Variant{"sgd_momentum", false, false, false, true}),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace of_gpt_oracle_test
}  // namespace shoal::model::test
