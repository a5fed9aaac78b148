// SPDX-License-Identifier: Apache-2.0
#include "part_layers.hpp"

#include "shoal/base/error.hpp"

namespace shoal::model {

namespace {

void check_border(const void* at, bool end_of_model, const char* what) {
  require((at == nullptr) == end_of_model, "a part of a model ", end_of_model ? "with" : "without", " memory for its ", what,
          end_of_model ? ", where the model ends" : ", which crosses a border");
}

void check_skipped(const void* at, bool crosses, const char* what) {
  require((at != nullptr) == crosses, "a part of a model ", crosses ? "without" : "with", " memory for what it ", what,
          " by a skip connection");
}

}  // namespace

void check_forward(const PartLayers& part, const Flow& flow) {
  check_border(flow.in, part.embedding, "input");
  check_border(flow.out, part.head, "output");
}

void check_backward(const PartLayers& part, const Flow& flow) {
  check_border(flow.in, part.head, "output's gradient");
  check_border(flow.out, part.embedding, "input's gradient");
}

void check_skip(const PartLayers& part, const Flow& flow, bool skips, Pass pass) {
  const bool crosses = skips && !part.is_whole(), is_backward = pass == Pass::backward;
  const bool in = crosses && (is_backward ? part.embedding : part.head);
  const bool out = crosses && !is_backward && (part.embedding || (part.head && pass == Pass::forward));
  check_skipped(flow.skip_in, in, "receives");
  check_skipped(flow.skip_out, out, "sends");
}

PartLayers layers_of(const Part& part, std::size_t layers_of_model, std::size_t units_of_head) {
  const std::size_t units = layers_of_model + 1 + units_of_head;
  const Range own = part.units.empty() ? Range{0, units} : part.units;
  require(own.end <= units, "a part with the units ", own.begin, " to ", own.end - 1, " of a model with ", units, " units");
  require(own.end == units || own.end <= layers_of_model + 1, "a part that ends with unit ", own.end - 1,
          ", within the head");
  const Range layers = {own.begin == 0 ? 0 : own.begin - 1, own.end == units ? layers_of_model : own.end - 1};
  require(layers.begin < layers.end, "a part with the units ", own.begin, " to ", own.end - 1,
          " has no layer; the layers are units 1 to ", layers_of_model);
  require(part.slots > 0 && part.whole_slots <= part.slots, "a part with ", part.slots, " slots, of which ",
          part.whole_slots, " keep all activations");
  return {own.begin == 0, own.end == units, layers};
}

}  // namespace shoal::model
