// SPDX-License-Identifier: Apache-2.0
// The costs of an MLP's units. Bytes: those of mlp_memory.cpp.
#include <algorithm>

#include "unit_costs.hpp"

namespace shoal::model::mlp {

std::vector<UnitCost> costs(const ModelOptions& o, DType dtype, const Capacity& capacity) {
  const std::size_t B = capacity.sequences, inputs = capacity.length * o.n_embd, inner = o.inner(), V = o.vocab_size;
  const auto buffer = [&](std::size_t elements) { return buffer_bytes(elements, size_of(dtype)); };
  // There is one prediction for a sequence. A product of n x k weights takes 2 n k operations.
  const auto flops = [](std::size_t in, std::size_t out) { return 2 * static_cast<double>(in) * static_cast<double>(out); };
  // The gradients of a layer's output and of its input.
  const std::size_t scratch = 2 * buffer(B * std::max(inner, inputs));
  // Backward needs a layer's output, which is kept as the input of the next segment: it repeats nothing by itself.
  const auto unit = [&](double forward, std::size_t input_bytes, std::size_t kept_bytes) {
    return UnitCost{forward, 2 * forward, 0, input_bytes, kept_bytes, scratch};
  };
  std::vector<UnitCost> units = {unit(0, 0, buffer_bytes(B * (capacity.length + 1), sizeof(std::int32_t)))};
  units.push_back(unit(flops(o.block_size * o.n_embd, inner), buffer(B * inputs), 0));
  units.insert(units.end(), o.n_layer - 1, unit(flops(inner, inner), buffer(B * inner), 0));
  const std::size_t logits = buffer_bytes(B * V, sizeof(float)), losses = buffer_bytes(B, sizeof(float)),
                    gradient = dtype == DType::f32 ? 0 : buffer(B * V);  // in fp32 it overwrites the logits
  units.push_back(unit(flops(inner, V), buffer(B * inner), logits + losses + gradient));
  return units;
}

}  // namespace shoal::model::mlp
