// SPDX-License-Identifier: Apache-2.0
#include "gpt_layout.hpp"

#include <cmath>

#include "shoal/base/error.hpp"

namespace shoal::model::gpt {

namespace {

constexpr float weight_std = 0.02F;

UnitLayout block_layout(const ModelOptions& o, std::size_t index) {
  const std::size_t C = o.n_embd;
  // Each block adds two branches to the residual stream. As in GPT-2, its variance does not depend on the number of blocks.
  const float out_std = weight_std / std::sqrt(2.0F * static_cast<float>(o.n_layer));
  const std::string prefix = text("transformer.h.", index, ".");
  UnitLayout unit{text("h.", index), {}, 0};
  unit.add(prefix + "ln_1.weight", {C}, 0, 1);
  unit.add(prefix + "ln_1.bias", {C}, 0);
  unit.add(prefix + "attn.c_attn.weight", {C, 3 * C}, weight_std);
  unit.add(prefix + "attn.c_attn.bias", {3 * C}, 0);
  unit.add(prefix + "attn.c_proj.weight", {C, C}, out_std);
  unit.add(prefix + "attn.c_proj.bias", {C}, 0);
  unit.add(prefix + "ln_2.weight", {C}, 0, 1);
  unit.add(prefix + "ln_2.bias", {C}, 0);
  unit.add(prefix + "mlp.c_fc.weight", {C, o.inner()}, weight_std);
  unit.add(prefix + "mlp.c_fc.bias", {o.inner()}, 0);
  unit.add(prefix + "mlp.c_proj.weight", {o.inner(), C}, out_std);
  unit.add(prefix + "mlp.c_proj.bias", {C}, 0);
  return unit;
}

}  // namespace

std::size_t vocabulary_rows(const ModelOptions& o) { return round_up(o.vocab_size, 64); }

std::vector<UnitLayout> layout(const ModelOptions& o) {
  std::vector<UnitLayout> units;
  UnitLayout embedding{"embedding", {}, 0};
  embedding.early_gradient = o.joins_gradients();
  embedding.add_with_border("transformer.wte.weight", {o.vocab_size, o.n_embd}, vocabulary_rows(o), weight_std);
  embedding.add("transformer.wpe.weight", {o.block_size, o.n_embd}, weight_std);
  units.push_back(embedding);
  for (std::size_t i = 0; i < o.n_layer; ++i) units.push_back(block_layout(o, i));
  UnitLayout head{"head", {}, 0};
  head.add("transformer.ln_f.weight", {o.n_embd}, 0, 1);
  head.add("transformer.ln_f.bias", {o.n_embd}, 0);
  if (!o.tied) head.add_with_border("lm_head.weight", {o.vocab_size, o.n_embd}, vocabulary_rows(o), weight_std);
  if (o.direct) {
    head.add_with_border("direct.weight", {o.vocab_size, o.n_embd}, vocabulary_rows(o), weight_std);
    // The head writes the gradients of both weights chunk by chunk, and that of the copied embedding is complete first.
    head.early_gradient = o.has_copied_embedding();
  }
  units.push_back(head);
  if (o.has_copied_embedding()) {
    UnitLayout copy{"head.wte", {}, units.front().elements};
    copy.copy_of = 0;
    units.push_back(copy);
  }
  return units;
}

PartLayers part_layers(const ModelOptions& o, const Capacity& capacity) {
  return layers_of(capacity.part, o.n_layer, units_of_head(o));
}

Segments segments(const ModelOptions& o, const Capacity& capacity) {
  return {part_layers(o, capacity).count(), capacity.training ? capacity.checkpoint_interval : 1};
}

UseOrders use_orders(const ModelOptions& o, const Capacity& capacity) {
  const int embedding = 0, head = static_cast<int>(o.n_layer) + 1, copy = head + 1;
  std::vector<int> of_head = {head};
  if (o.tied) of_head.push_back(o.joins_gradients() ? embedding : copy);
  return use_orders_of(segments(o, capacity), part_layers(o, capacity), of_head, capacity.training);
}

std::vector<std::string> problems(const ModelOptions& o) {
  if (o.n_head == 0) return {"model.n_head = 0: must be at least 1"};
  if (o.n_embd == 0 || o.n_embd % o.n_head == 0) return {};
  const std::size_t below = o.n_embd / o.n_head * o.n_head;
  const std::string nearest = below == 0 ? text(o.n_head) : text(below, ", ", below + o.n_head);
  return {text("model.n_embd = ", o.n_embd, " is not a multiple of model.n_head = ", o.n_head, "; nearest: ", nearest)};
}

}  // namespace shoal::model::gpt
