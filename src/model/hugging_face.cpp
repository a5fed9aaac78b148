// SPDX-License-Identifier: Apache-2.0
#include "shoal/model/hugging_face.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "shoal/base/error.hpp"

namespace shoal::model {

namespace {

using Json = nlohmann::ordered_json;

/// Compares the fields of a config with the options.
class Comparison {
 public:
  explicit Comparison(const Json& config) : config_(config) {}

  /// fallback: GPT2Config's default. option: the name of the same option in the deck.
  template <typename Value>
  void expect(const char* field, const Value& fallback, const Value& ours, const char* option) {
    const auto found = config_.find(field);
    const bool given = found != config_.end();
    const Json theirs = given ? *found : Json(fallback);
    if (theirs == Json(ours)) return;
    const std::string value = given ? text(" is ", theirs.dump()) : text(" is not given, which means ", theirs.dump());
    problems_.push_back(text(field, value, ", ", option, " is ", Json(ours).dump()));
  }
  /// A field that must have one value, since shoal can compute nothing else.
  template <typename Value>
  void require_field(const char* field, const Value& only) {
    const auto found = config_.find(field);
    if (found == config_.end() || *found == Json(only)) return;
    problems_.push_back(text(field, " is ", found->dump(), "; supported: ", Json(only).dump()));
  }
  void add(const std::string& problem) { problems_.push_back(problem); }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  const Json& config_;
  std::vector<std::string> problems_;
};

void compare_inner(const Json& config, const ModelOptions& o, Comparison& comparison) {
  const auto found = config.find("n_inner");
  const Json theirs = found == config.end() ? Json(nullptr) : *found;
  const Json width = theirs.is_null() ? Json(4 * o.n_embd) : theirs;
  if (width != Json(o.inner())) {
    const std::string value = found == config.end() ? "not given" : theirs.dump();
    comparison.add(text("n_inner is ", value, ", model.n_inner is ", o.n_inner, " (a width of ", o.inner(), ")"));
  }
}

}  // namespace

std::string config_json(const ModelOptions& o) {
  if (o.kind != ModelKind::gpt || o.direct) return {};
  Json config;
  config["model_type"] = "gpt2";
  config["architectures"] = {"GPT2LMHeadModel"};
  config["vocab_size"] = o.vocab_size;
  config["n_positions"] = o.block_size;
  config["n_ctx"] = o.block_size;
  config["n_embd"] = o.n_embd;
  config["n_layer"] = o.n_layer;
  config["n_head"] = o.n_head;
  config["n_inner"] = o.n_inner == 0 ? Json(nullptr) : Json(o.n_inner);
  config["activation_function"] = "gelu_new";
  config["layer_norm_epsilon"] = o.layer_norm_epsilon;
  config["resid_pdrop"] = o.dropout;
  config["embd_pdrop"] = o.dropout;
  config["attn_pdrop"] = o.dropout;
  config["initializer_range"] = 0.02;
  config["scale_attn_weights"] = true;
  config["tie_word_embeddings"] = o.tied;
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
  config["use_cache"] = true;
  config["dtype"] = "float32";
  config["torch_dtype"] = "float32";
  return config.dump(2);
}

std::vector<std::string> disagreements(const std::string& config_text, const ModelOptions& o) {
  const Json config = Json::parse(config_text, nullptr, false);
  if (!config.is_object()) return {"not a JSON object"};
  const auto type = config.find("model_type");
  if (type != config.end() && *type != "gpt2") {  // its other fields may have other names
    return {text("model_type is ", type->dump(), ": another kind of model; supported: \"gpt2\"")};
  }
  if (o.kind != ModelKind::gpt) return {text("describes a GPT-2, model.kind is ", name_of(o.kind))};
  if (o.direct) return {"describes a GPT-2, which has no direct connection, model.direct is true"};
  Comparison comparison(config);
  comparison.require_field("activation_function", "gelu_new");
  comparison.require_field("scale_attn_weights", true);
  comparison.require_field("scale_attn_by_inverse_layer_idx", false);
  comparison.require_field("add_cross_attention", false);
  comparison.expect<std::size_t>("vocab_size", 50257, o.vocab_size, "model.vocab_size");
  comparison.expect<std::size_t>("n_positions", 1024, o.block_size, "model.block_size");
  comparison.expect<std::size_t>("n_embd", 768, o.n_embd, "model.n_embd");
  comparison.expect<std::size_t>("n_layer", 12, o.n_layer, "model.n_layer");
  comparison.expect<std::size_t>("n_head", 12, o.n_head, "model.n_head");
  comparison.expect("layer_norm_epsilon", 1e-5, o.layer_norm_epsilon, "model.layer_norm_epsilon");
  comparison.expect("tie_word_embeddings", true, o.tied, "model.tied");
  compare_inner(config, o, comparison);
  return comparison.problems();
}

std::optional<std::string> canonical_name(std::string_view name, const ModelOptions& o) {
  if (o.kind == ModelKind::gpt && o.tied && name == "lm_head.weight") return "transformer.wte.weight";
  if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) return std::nullopt;
  constexpr std::array body = {"wte.", "wpe.", "h.", "ln_f."};
  for (const std::string_view part : body) {
    if (name.starts_with(part)) return "transformer." + std::string(name);
  }
  return std::string(name);
}

}  // namespace shoal::model
