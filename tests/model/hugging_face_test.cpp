// SPDX-License-Identifier: Apache-2.0
#include "shoal/model/hugging_face.hpp"

#include <gmock/gmock.h>

namespace shoal::model {
namespace of_hugging_face_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelOptions options() {
  ModelOptions o;
  o.n_layer = 3;
  o.n_head = 4;
  o.n_embd = 48;
  o.block_size = 32;
  o.vocab_size = 97;
  return o;
}

/// As transformers 5 writes it, with the fields that it adds for a GPT-2.
constexpr const char* written_by_transformers = R"({
  "activation_function": "gelu_new", "add_cross_attention": false, "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.0,
  "bos_token_id": 0, "dtype": "float32", "embd_pdrop": 0.0, "eos_token_id": 0, "initializer_range": 0.3,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_embd": 48, "n_head": 4, "n_inner": null, "n_layer": 3,
  "n_positions": 32, "scale_attn_by_inverse_layer_idx": false, "scale_attn_weights": true, "tie_word_embeddings": true,
  "transformers_version": "5.23.0", "use_cache": true, "vocab_size": 97})";

TEST(Config, OfTransformersAgrees) { EXPECT_THAT(disagreements(written_by_transformers, options()), ElementsAre()); }

TEST(Config, OfOursAgreesWithItself) {
  for (const std::size_t inner : {0U, 192U, 100U}) {
    for (const bool tied : {true, false}) {
      ModelOptions o = options();
      o.n_inner = inner;
      o.tied = tied;
      o.layer_norm_epsilon = 1e-6;
      EXPECT_THAT(disagreements(config_json(o), o), ElementsAre()) << config_json(o);
    }
  }
  EXPECT_THAT(config_json(options()), HasSubstr("\"activation_function\": \"gelu_new\""));
  EXPECT_THAT(config_json(options()), HasSubstr("\"n_inner\": null"));
}

TEST(Config, OfAModelThatTransformersDoesNotHaveIsNone) {
  ModelOptions direct = options(), mlp = options();
  direct.direct = true;
  mlp.kind = ModelKind::mlp;
  EXPECT_EQ(config_json(direct), "");
  EXPECT_EQ(config_json(mlp), "");
}

TEST(Config, EveryDisagreementIsASentence) {
  const auto found = [](const std::function<void(ModelOptions&)>& change) {
    ModelOptions o = options();
    change(o);
    return disagreements(written_by_transformers, o);
  };
  EXPECT_THAT(found([](ModelOptions& o) { o.n_layer = 2; }), ElementsAre("n_layer is 3, model.n_layer is 2"));
  EXPECT_THAT(found([](ModelOptions& o) { o.n_head = 6; }), ElementsAre("n_head is 4, model.n_head is 6"));
  EXPECT_THAT(found([](ModelOptions& o) { o.n_embd = 96, o.n_inner = 384; }),
              ElementsAre("n_embd is 48, model.n_embd is 96"));
  EXPECT_THAT(found([](ModelOptions& o) { o.vocab_size = 96; }), ElementsAre("vocab_size is 97, model.vocab_size is 96"));
  EXPECT_THAT(found([](ModelOptions& o) { o.block_size = 64; }), ElementsAre("n_positions is 32, model.block_size is 64"));
  EXPECT_THAT(found([](ModelOptions& o) { o.n_inner = 100; }), ElementsAre(HasSubstr("model.n_inner is 100")));
  EXPECT_THAT(found([](ModelOptions& o) { o.tied = false; }),
              ElementsAre("tie_word_embeddings is true, model.tied is false"));
  EXPECT_THAT(found([](ModelOptions& o) { o.layer_norm_epsilon = 1e-6; }),
              ElementsAre(HasSubstr("layer_norm_epsilon is 1e-05")));
  EXPECT_THAT(found([](ModelOptions& o) { o.direct = true; }),
              ElementsAre("describes a GPT-2, which has no direct connection, model.direct is true"));
  EXPECT_THAT(found([](ModelOptions& o) { o.kind = ModelKind::mlp; }), ElementsAre(HasSubstr("model.kind is mlp")));
  EXPECT_THAT(found([](ModelOptions& o) { o.n_layer = 2, o.tied = false; }).size(), 2U);
}

TEST(Config, WhatOurFormulasDoNotCoverIsRefused) {
  EXPECT_THAT(disagreements(R"({"n_embd": 48, "n_head": 4, "n_layer": 3, "n_positions": 32, "vocab_size": 97,
                               "activation_function": "relu"})",
                            options()),
              ElementsAre("activation_function is \"relu\"; supported: \"gelu_new\""));
  EXPECT_THAT(disagreements("[1, 2", options()), ElementsAre("not a JSON object"));
  EXPECT_THAT(disagreements("[]", options()), ElementsAre("not a JSON object"));
  EXPECT_THAT(
      disagreements(R"({"n_embd": "48", "n_head": 4, "n_layer": 3, "n_positions": 32, "vocab_size": 97})", options()),
      ElementsAre("n_embd is \"48\", model.n_embd is 48"));
}

TEST(Config, OfAnotherKindOfModelIsOneSentence) {
  EXPECT_THAT(
      disagreements(R"({"model_type": "llama", "hidden_size": 48, "num_hidden_layers": 3, "vocab_size": 32000})", options()),
      ElementsAre("model_type is \"llama\": another kind of model; supported: \"gpt2\""));
}

TEST(Config, WhatIsNotGivenIsSaidToBeNotGiven) {
  EXPECT_THAT(disagreements(R"({"n_embd": 48, "n_head": 4, "n_positions": 32, "vocab_size": 97})", options()),
              ElementsAre("n_layer is not given, which means 12, model.n_layer is 3"));
  ModelOptions wide = options();
  wide.n_inner = 100;
  EXPECT_THAT(disagreements(R"({"n_embd": 48, "n_head": 4, "n_layer": 3, "n_positions": 32, "vocab_size": 97})", wide),
              ElementsAre("n_inner is not given, model.n_inner is 100 (a width of 100)"));
}

TEST(Names, AreOursWithTheirPrefix) {
  EXPECT_EQ(canonical_name("transformer.wte.weight", options()), "transformer.wte.weight");
  EXPECT_EQ(canonical_name("wte.weight", options()), "transformer.wte.weight");
  EXPECT_EQ(canonical_name("h.11.mlp.c_fc.bias", options()), "transformer.h.11.mlp.c_fc.bias");
  EXPECT_EQ(canonical_name("ln_f.bias", options()), "transformer.ln_f.bias");
  EXPECT_EQ(canonical_name("hidden.0.weight", options()), "hidden.0.weight");
}

TEST(Names, OfATiedHeadAreTheEmbeddings) {
  ModelOptions o = options();
  EXPECT_EQ(canonical_name("lm_head.weight", o), "transformer.wte.weight");
  o.tied = false;
  EXPECT_EQ(canonical_name("lm_head.weight", o), "lm_head.weight");
}

TEST(Names, OfConstantBuffersAreNone) {
  EXPECT_EQ(canonical_name("h.0.attn.bias", options()), std::nullopt);
  EXPECT_EQ(canonical_name("transformer.h.0.attn.masked_bias", options()), std::nullopt);
  EXPECT_EQ(canonical_name("h.0.attn.c_attn.bias", options()), "transformer.h.0.attn.c_attn.bias");
}

}  // namespace of_hugging_face_test
}  // namespace shoal::model
