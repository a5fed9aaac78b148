// SPDX-License-Identifier: Apache-2.0
// On GPUs all ranks use the algorithms that rank 0 has chosen for the products of a model. Here a double stands for cuBLASLt
// (tests/kernels/product_double.hpp): as there, a product that the model has not listed, or whose addresses are not the
// multiples that its list promises, is an error.
#include "app/setup/algorithms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "kernels/product_double.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/cells.hpp"
#include "zero/engine_harness.hpp"

namespace shoal::app {

namespace {

using kernels::Product;
using kernels::test::product_double;
using zero::EngineOptions;
using zero::test::EngineOfAll;

comm::Communicator& all() { return EngineOfAll::world(); }

void start_afresh() {
  product_double() = {};
  kernels::cuda::forget_algorithms();
}

const std::vector<Product> one_product = {kernels::product<float, float>({.m = 2, .n = 4, .k = 4})};

std::string error_of_agreement() {
  try {
    agree_on_algorithms(all(), one_product);
  } catch (const Error& error) {
    return error.seen() == Seen::everywhere ? error.what() : text("seen here alone: ", error.what());
  }
  return "no error";
}

class Agreement : public testing::Test {
  void SetUp() override { start_afresh(); }
};

TEST_F(Agreement, AllRanksUseRank0sChoice) {
  product_double().choice = static_cast<std::uint64_t>(all().rank()) + 1;
  agree_on_algorithms(all(), one_product);
  EXPECT_EQ(product_double().chosen.size(), all().rank() == 0 ? 1 : 0);
  const std::vector<float> a(8, 1.0F), b(16, 2.0F);
  std::vector<float> c(8);
  std::vector<std::byte> workspace(kernels::workspace_bytes(one_product));
  kernels::matmul<float, float>("test", {.a = {a.data(), 2, 4}, .b = {b.data(), 4, 4}}, {c.data(), 2, 4}, workspace);
  EXPECT_EQ(c[7], 8);
  ASSERT_EQ(product_double().runs.size(), 1);
  EXPECT_EQ(product_double().runs[0].choice, 1);
}

TEST_F(Agreement, WhatOneRankCannotIsAnErrorOfAll) {
  const int last = all().size() - 1;
  if (all().rank() == last) product_double().cannot_run = "another GPU";
  const std::string prefix = last == 0 ? "" : text("rank ", last, ": ");
  EXPECT_EQ(error_of_agreement(),
            prefix +
                "matrix products: rank 0's algorithm for [2, 4] x [4, 4], fp32 does not run on the double: another GPU; "
                "all ranks need GPUs that run the same algorithms");

  start_afresh();
  if (all().rank() == 0) product_double().no_algorithm = "none";
  EXPECT_EQ(error_of_agreement(),
            "matrix products: double 1.0 has no algorithm for [2, 4] x [4, 4], fp32 on the double: none");
}

SHOAL_RUN_IF(Agreement, VersionsThatDifferAreRefused, ranks > 1);
TEST_F(Agreement, VersionsThatDifferAreRefused) {
  if (all().rank() > 0) product_double().version = "double 2.0";
  EXPECT_EQ(
      error_of_agreement(),
      "rank 1: matrix products: double 1.0 has chosen the algorithms on rank 0, and this rank has double 2.0: all ranks "
      "need the same version, so that they compute the same bits");
}

/// What rank 0 prints if rank r's kernels return lines[r].
std::string printed(const std::vector<std::vector<std::string>>& lines) {
  testing::internal::CaptureStderr();
  prepare_kernels(all(), [&] { return lines[static_cast<std::size_t>(all().rank())]; });
  return testing::internal::GetCapturedStderr();
}

SHOAL_RUN_IF(Preparation, PrintsOnRank0Alone, ranks == 2);
TEST(Preparation, PrintsOnRank0Alone) {
  const bool prints = all().rank() == 0;
  const std::string warning = "shoal: warning: backward is slow\n";
  EXPECT_EQ(printed({{}, {}}), "");
  EXPECT_EQ(printed({{"backward is slow"}, {"backward is slow"}}), prints ? warning : "");
  EXPECT_EQ(printed({{}, {"backward is slow"}}),
            prints ? warning +
                         "shoal: warning: so it is on 1 rank of 2, the first of which is 1: ranks differ, and so may "
                         "their bits\n"
                   : "");
}

struct Work {
  const char* name;
  EngineOptions options;
};

EngineOptions tiny(const std::function<void(EngineOptions&)>& change = {}) {
  EngineOptions o;
  // Tensors whose sizes are no multiples of 16 bytes.
  o.model = {.n_layer = 2, .n_head = 2, .n_embd = 10, .n_inner = 23, .block_size = 7, .vocab_size = 19, .init_from = ""};
  o.capacity = {.sequences = 3, .length = 7};
  o.micro_batches = 2 * static_cast<std::size_t>(all().size());
  o.gradients.bucket_elements = 700;
  if (change) change(o);
  return o;
}

std::vector<Work> works() {
  using model::ModelKind;
  return {{"tied", tiny()},
          {"untied", tiny([](EngineOptions& o) { o.model.tied = false; })},
          {"dropout", tiny([](EngineOptions& o) { o.model.dropout = 0.1; })},
          {"direct", tiny([](EngineOptions& o) { o.model.direct = true; })},
          {"recomputed", tiny([](EngineOptions& o) { o.capacity.checkpoint_interval = 1; })},
          {"mlp", tiny([](EngineOptions& o) { o.model.kind = ModelKind::mlp; })},
          {"mlp of one layer", tiny([](EngineOptions& o) { o.model.kind = ModelKind::mlp, o.model.n_layer = 1; })},
          {"mlp of short sequences", tiny([](EngineOptions& o) { o.model.kind = ModelKind::mlp, o.capacity.length = 4; })}};
}

/// The same, with GELU in products: a width that is a multiple of 8.
std::vector<Work> fused_works() {
  const auto fused = [](const std::function<void(EngineOptions&)>& change) {
    return tiny([&](EngineOptions& o) {
      o.model.n_inner = 24;
      o.capacity.fused_gelu = true;
      change(o);
    });
  };
  return {{"fused", fused([](EngineOptions&) {})},
          {"fused, with dropout", fused([](EngineOptions& o) { o.model.dropout = 0.1; })},
          {"fused, recomputed", fused([](EngineOptions& o) { o.capacity.checkpoint_interval = 1; })}};
}

struct Tokens {
  std::vector<std::int32_t> inputs, targets;
  Tokens(std::size_t count, std::size_t symbols) : inputs(count), targets(count) {
    for (std::size_t i = 0; i < count; ++i) {
      inputs[i] = static_cast<std::int32_t>(i * i % symbols);
      targets[i] = static_cast<std::int32_t>((i * i + 5) % symbols);
    }
  }
  model::MicroBatch batch(std::size_t sequences, std::size_t length) const {
    return {sequences, length, inputs, targets, 0, 0};
  }
};

zero::Norm train_a_step(EngineOfAll& engine, const model::MicroBatch& batch) {
  for (std::size_t turn = 0; turn < engine->accumulation().turns(); ++turn) {
    engine->forward(0, turn, batch);
    engine->backward(0, turn);
  }
  engine->finish_gradients();
  engine->start_gradient_gather();
  engine->measure();
  const zero::Norm norm = engine->norm();
  engine->update(norm, {1, 1e-2, 0.9, 0.95, 1.0F});
  engine->publish();
  engine->wait_for_parameters();
  return norm;
}

std::string described(const std::set<Product>& products) {
  std::string lines;
  for (const Product& product : products) lines += kernels::describe(product) + "\n";
  return lines;
}

/// Whatever a model multiplies at its whole capacity is in its list, and nothing else.
void expect_the_list(const Work& work, int stage) {
  SCOPED_TRACE(text(work.name, ", ", name_of(work.options.dtype), ", stage ", stage));
  start_afresh();
  EngineOptions o = work.options;
  o.zero.stage = stage;
  const Tokens tokens(o.capacity.sequences * o.capacity.length, o.model.vocab_size);
  const model::MicroBatch batch = tokens.batch(o.capacity.sequences, o.capacity.length);
  EngineOfAll engine(o);
  engine->initialize(1);
  model::Model& model = engine->model();
  agree_on_algorithms(all(), model.products());
  std::set<Product> listed;
  for (const Product& product : model.products()) listed.insert(kernels::cuda::with_strides(product));
  train_a_step(engine, batch);
  engine->evaluate(batch);
  if (stage < 3) {  // otherwise logits() needs a pass of its own
    std::vector<float> logits(o.capacity.sequences * o.model.vocab_size);
    model.logits(batch, logits);
    if (model::Decoder* const decoder = model.decoder()) {
      logits.resize(o.model.vocab_size);
      decoder->prefill(batch.inputs.first(1), logits);
      for (const std::int32_t token : {1, 2, 3}) decoder->decode(token, logits);
    }
    device::wait_for_queue();
  }
  std::set<Product> used;
  for (const kernels::test::ProductDouble::Run& run : product_double().runs) used.insert(run.product);
  std::set<Product> unused;
  if (stage < 3) {
    for (const Product& product : listed) {
      if (used.count(product) == 0) unused.insert(product);
    }
  }
  EXPECT_EQ(described(unused), "") << "listed, and never multiplied";
}

TEST(Lists, AreWhatModelsMultiplyInAllStages) {
  std::vector<Work> all_works = works();
  for (Work& work : fused_works()) all_works.push_back(std::move(work));
  for (Work& work : all_works) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      work.options.dtype = dtype;
      for (const int stage : {0, 1, 2, 3}) expect_the_list(work, stage);
    }
  }
}

/// Each part multiplies something that the others do not.
TEST(Lists, OfAnEngineHaveTheProductsOfAllItsParts) {
  EngineOptions o = works().front().options;
  o.model.n_layer = 2;
  o.model.tied = false;
  o.parts = {model::Part{{0, 2}}, model::Part{{2, 4}}};
  EngineOfAll engine(o);
  const std::vector<Product> listed = engine->products();
  for (const std::size_t part : {0U, 1U}) {
    std::set<Product> missing;
    for (const Product& product : engine->model(part).products()) {
      if (std::find(listed.begin(), listed.end(), product) == listed.end()) missing.insert(product);
    }
    EXPECT_EQ(described(missing), "") << "part " << part;
  }
}

/// A vocabulary so large that the head cuts 35 rows into chunks of 16, 16 and 3.
TEST(Lists, HaveTheChunksOfAHead) {
  Work work{"large vocabulary", tiny([](EngineOptions& o) {
              o.model.n_layer = 1, o.model.n_embd = 2, o.model.n_head = 1, o.model.vocab_size = 700'001;
              o.capacity.sequences = 5;
              o.micro_batches = static_cast<std::size_t>(all().size());
              o.dtype = DType::bf16;
            })};
  expect_the_list(work, 1);
}

/// The last batch of an evaluation, prompts: this rank chooses, and planned products keep their algorithms.
TEST(Lists, OfOtherBatchesAreChosenWhenTheyCome) {
  for (const Work& work : works()) {
    SCOPED_TRACE(work.name);
    start_afresh();
    EngineOptions o = work.options;
    o.dtype = DType::bf16;
    const Tokens tokens(o.capacity.sequences * o.capacity.length, o.model.vocab_size);
    EngineOfAll engine(o);
    engine->initialize(1);
    product_double().choice = 1;
    agree_on_algorithms(all(), engine->model().products());
    product_double().choice = 2;
    const std::size_t planned_products = product_double().chosen.size();
    std::size_t chosen = product_double().chosen.size();
    for (std::size_t sequences = 1; sequences <= o.capacity.sequences; ++sequences) {
      for (std::size_t length = 1; length <= o.capacity.length; ++length) {
        const bool planned = sequences == o.capacity.sequences && length == o.capacity.length;
        engine->evaluate(tokens.batch(sequences, length));
        EXPECT_TRUE(!planned || product_double().chosen.size() == chosen) << "planned products are chosen again";
        chosen = product_double().chosen.size();
        EXPECT_TRUE(!planned || product_double().runs.back().choice == 1);
      }
    }
    EXPECT_GT(chosen, planned_products);
  }
}

/// The double's GELU is that of kernels/rules with another rounding: so the gradients with it in products are those without,
/// within roundings of fp32.
TEST(FusedGelu, HasTheGradientsOfTheKernels) {
  for (Work& work : fused_works()) {
    SCOPED_TRACE(work.name);
    std::vector<zero::Norm> norms;
    std::vector<double> losses;
    for (const bool fused : {false, true}) {
      start_afresh();
      work.options.capacity.fused_gelu = fused;
      const EngineOptions& o = work.options;
      const Tokens tokens(o.capacity.sequences * o.capacity.length, o.model.vocab_size);
      EngineOfAll engine(o);
      engine->initialize(1);
      agree_on_algorithms(all(), engine->model().products());
      for (int step = 0; step < 3; ++step) {
        norms.push_back(train_a_step(engine, tokens.batch(o.capacity.sequences, o.capacity.length)));
        losses.push_back(engine->loss(0));
      }
    }
    for (std::size_t step = 0; step < 3; ++step) {
      EXPECT_NEAR(norms[step + 3].value, norms[step].value, 1e-4 * norms[step].value) << step;
      EXPECT_NEAR(losses[step + 3], losses[step], 1e-5 * losses[step]) << step;
    }
    EXPECT_GT(std::abs(losses[2] - losses[0]), 1e-2 * losses[0]) << "steps change too little to show an error";
  }
}

}  // namespace

}  // namespace shoal::app
