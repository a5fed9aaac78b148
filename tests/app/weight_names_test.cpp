// SPDX-License-Identifier: Apache-2.0
// Names and shapes as files of weights have them, and what a file is refused with: one sentence for what all tensors have in
// common.
#include "app/setup/weight_names.hpp"

#include <gmock/gmock.h>

#include <functional>

#include "shoal/base/error.hpp"

namespace shoal::app {
namespace of_weight_names_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Entries = std::map<std::string, io::SafetensorsEntry>;

class Weights : public testing::Test {
 protected:
  Weights() {
    options_.n_layer = 2, options_.n_head = 2, options_.n_embd = 32, options_.block_size = 32, options_.vocab_size = 64;
    entries_ = of_model();
  }

  Entries of_model() const {
    Entries entries;
    for (const model::UnitLayout& unit : model::layout(options_)) {
      for (const model::Parameter& p : unit.parameters) entries[p.name] = {"F32", p.shape};
    }
    return entries;
  }
  /// The file's tensors under other names.
  void rename(const std::function<std::string(const std::string&)>& renamed) {
    Entries other;
    for (const auto& [name, entry] : entries_) other[renamed(name)] = entry;
    entries_ = other;
  }
  void transpose(const std::string& name) {
    auto& shape = entries_.at(name).shape;
    std::reverse(shape.begin(), shape.end());
  }
  WeightNames names() const { return match_names(options_, entries_, "w"); }
  std::string refusal() const {
    try {
      names();
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
  std::string lines(std::size_t count) const {
    const std::string all = refusal();
    EXPECT_EQ(std::count(all.begin(), all.end(), '\n') + 1, static_cast<std::ptrdiff_t>(count)) << all;
    return all;
  }

  model::ModelOptions options_;
  Entries entries_;
};

TEST_F(Weights, OfTheModelNeedNoNote) {
  EXPECT_EQ(names().in_file.at("transformer.ln_f.bias"), "transformer.ln_f.bias");
  EXPECT_EQ(names().note, "");
  rename([](const std::string& name) { return name.substr(std::string("transformer.").size()); });
  EXPECT_EQ(names().in_file.at("transformer.ln_f.bias"), "ln_f.bias");
  EXPECT_EQ(names().note, "");
}

TEST_F(Weights, OfAWrappedModelAreReadWithoutTheirPrefix) {
  const Entries plain = entries_;
  for (const std::string prefix : {"_orig_mod.", "module.", "model.", "module._orig_mod.", "gpt."}) {
    for (const std::size_t kept : {0U, 12U}) {  // with and without "transformer."
      entries_ = plain;
      rename([&](const std::string& name) { return prefix + name.substr(kept); });
      const WeightNames found = names();
      EXPECT_EQ(found.in_file.at("transformer.h.1.mlp.c_fc.bias"),
                prefix + std::string("transformer.h.1.mlp.c_fc.bias").substr(kept));
      EXPECT_EQ(found.in_file.size(), plain.size());
      EXPECT_EQ(found.note, "w: all names begin with \"" + prefix + "\"; read without it");
    }
  }
}

TEST_F(Weights, OfAWrapperThatDoNotFitSayOnceWhatTheyBeginWith) {
  rename([](const std::string& name) { return "module." + name; });
  entries_["module.transformer.wte.more"] = entries_.extract("module.transformer.wte.weight").mapped();
  EXPECT_THAT(lines(3), AllOf(HasSubstr("w: all names begin with \"module.\"; without it they do not fit, either:\n"),
                              HasSubstr("w: transformer.wte.weight is missing\n"),
                              HasSubstr("w: module.transformer.wte.more is no tensor of the model")));
}

TEST_F(Weights, OfWhichSomeHaveAPrefixAreRefused) {
  entries_["module.transformer.ln_f.bias"] = entries_.extract("transformer.ln_f.bias").mapped();
  EXPECT_THAT(lines(2), AllOf(HasSubstr("transformer.ln_f.bias is missing"), HasSubstr("is no tensor of the model")));
}

TEST_F(Weights, ATiedHeadsAreACopyOfTheEmbedding) {
  entries_["lm_head.weight"] = entries_.at("transformer.wte.weight");
  ASSERT_EQ(names().copies.size(), 1U);
  EXPECT_EQ(names().copies[0].name, "lm_head.weight");
  EXPECT_EQ(names().copies[0].other, "transformer.wte.weight");
  EXPECT_EQ(names().copies[0].ours, "transformer.wte.weight");
  rename([](const std::string& name) { return "_orig_mod." + name; });
  EXPECT_EQ(names().copies.size(), 1U);
  entries_.at("_orig_mod.transformer.wte.weight").shape = {65, 32};
  EXPECT_THAT(lines(1), HasSubstr("_orig_mod.transformer.wte.weight has shape 65 x 32, the model needs 64 x 32"));
  entries_.erase("_orig_mod.transformer.wte.weight");  // some programs write shared memory once, under either name
  EXPECT_EQ(names().in_file.at("transformer.wte.weight"), "_orig_mod.lm_head.weight");
  options_.tied = false;
  EXPECT_THAT(lines(2), HasSubstr("transformer.wte.weight is missing"));
  entries_ = of_model();
  EXPECT_TRUE(names().copies.empty());
}

TEST_F(Weights, OfNnLinearAreRefusedInOneSentence) {
  for (const std::string block : {"transformer.h.0.", "transformer.h.1."}) {
    for (const char* name : {"attn.c_attn.weight", "mlp.c_fc.weight", "mlp.c_proj.weight"}) transpose(block + name);
  }
  EXPECT_THAT(lines(1), AllOf(HasSubstr("w: the linear weights are transposed"),
                              HasSubstr("has shape 96 x 32, the model needs 32 x 96"), HasSubstr("attn.c_proj")));
  entries_.at("transformer.wpe.weight").shape = {16, 32};
  EXPECT_THAT(lines(2), HasSubstr("transformer.wpe.weight has shape 16 x 32, the model needs 32 x 32"));
  transpose("transformer.h.0.mlp.c_fc.weight");  // as the model needs it: so not all are
  EXPECT_THAT(
      lines(6),
      AllOf(HasSubstr("transformer.h.1.mlp.c_fc.weight has shape 128 x 32, the model needs 32 x 128: it is transposed"),
            Not(HasSubstr("the linear weights are"))));
}

TEST_F(Weights, WithoutBiasesAreRefusedInOneSentence) {
  std::erase_if(entries_, [](const auto& entry) { return entry.first.ends_with(".bias"); });
  EXPECT_THAT(lines(1), AllOf(HasSubstr("w: all 13 biases are missing"), HasSubstr("bias=False"), HasSubstr("add zeros")));
  entries_.erase("transformer.ln_f.weight");
  EXPECT_THAT(lines(2), HasSubstr("transformer.ln_f.weight is missing"));
}

TEST_F(Weights, OfAnotherModelAreRefusedInOneSentence) {
  entries_ = {{"lm_head.weight", {"F32", {64, 32}}},
              {"model.embed_tokens.weight", {"F32", {64, 32}}},
              {"model.norm.weight", {"F32", {32}}}};
  EXPECT_EQ(
      lines(1),
      "w: has 1 of the model's 28 tensors, and 2 others, such as \"model.embed_tokens.weight\": weights of another model");
  entries_.clear();
  EXPECT_THAT(lines(16), HasSubstr("transformer.wte.weight is missing"));
}

TEST_F(Weights, NamesAreSafeToPrint) {
  entries_["transformer.wte.\x1b[2J"] = {"I32", {1}};
  EXPECT_THAT(lines(1), HasSubstr("transformer.wte.\\x1b[2J is no tensor of the model"));
}

TEST_F(Weights, DTypesThatCannotBeReadAreNamed) {
  entries_.at("transformer.ln_f.bias").dtype = "F64";
  EXPECT_THAT(lines(1), HasSubstr("transformer.ln_f.bias: dtype F64; weights are read from F32, BF16 and F16"));
}

}  // namespace of_weight_names_test
}  // namespace shoal::app
