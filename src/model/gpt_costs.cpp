// SPDX-License-Identifier: Apache-2.0
// The costs of a GPT's units. Bytes: those of gpt_memory.cpp and gpt_slots.hpp.
#include <algorithm>

#include "block.hpp"
#include "gpt_layout.hpp"
#include "head.hpp"
#include "unit_costs.hpp"

namespace shoal::model::gpt {

namespace {

/// Forward operations of a block and of the head for one sequence. A product of n x k weights takes 2 n k operations per
/// token. Attention takes 4 C operations for each pair of a token and one that it attends to: itself or one before it.
double block_flops(const ModelOptions& o) {
  const auto T = static_cast<double>(o.block_size), C = static_cast<double>(o.n_embd),
             inner = static_cast<double>(o.inner());
  return 2 * T * (4 * C * C + 2 * C * inner) + 4 * C * (T * (T + 1) / 2);
}
/// The last product of a block makes its output alone.
double repeated_flops(const ModelOptions& o) {
  return block_flops(o) - 2 * static_cast<double>(o.block_size) * static_cast<double>(o.n_embd * o.inner());
}
double head_flops(const ModelOptions& o) {
  const double products = o.direct ? 2 : 1;
  return products * 2 * static_cast<double>(o.block_size) * static_cast<double>(o.n_embd) *
         static_cast<double>(o.vocab_size);
}

struct Bytes {
  std::size_t stream;         // of [rows, C]
  std::size_t block, head;    // kept, without their inputs
  std::size_t tokens;         // inputs and targets
  std::size_t block_scratch;  // not shared with the head
  std::size_t head_scratch;
  std::size_t common_scratch;
};

template <typename T>
Bytes bytes_of(const ModelOptions& o, const Capacity& capacity) {
  const BlockShape s = {capacity.sequences, capacity.length, o.n_embd, o.n_head, o.inner(), 0, false};
  const std::size_t rows = s.rows();
  const auto buffer = [](std::size_t elements) { return buffer_bytes(elements, sizeof(T)); };
  const auto statistics = [](std::size_t elements) { return buffer_bytes(elements, sizeof(float)); };
  const VocabularyShape vocabulary = {.symbols = o.vocab_size, .rows = vocabulary_rows(o)};
  Bytes bytes{};
  bytes.stream = buffer(rows * s.C);
  // x_mid and the outputs of the heads; q, k, v; the MLP's pre-activations; logsumexp; means and deviations of two norms
  bytes.block = 2 * bytes.stream + buffer(rows * 3 * s.C) + buffer(rows * s.inner) + statistics(s.B * s.NH * s.T) +
                4 * statistics(rows);
  bytes.head = 3 * statistics(rows) + (o.direct ? bytes.stream : 0);  // the gradient through the direct connection
  bytes.tokens = buffer_bytes(2 * rows, sizeof(std::int32_t));
  bytes.block_scratch = buffer(rows * s.inner) + buffer(rows * std::max(s.inner, 3 * s.C)) + bytes.stream;
  bytes.head_scratch =
      buffer_bytes(Head<T>(rows, s.C, vocabulary, {.training = true, .direct = o.direct}).scratch_bytes(), 1);
  // the output of a norm, the gradient of the residual stream, and with dropout the gradient of a branch
  bytes.common_scratch = (o.dropout > 0 ? 3 : 2) * bytes.stream;
  return bytes;
}

}  // namespace

std::vector<UnitCost> costs(const ModelOptions& o, DType dtype, const Capacity& capacity) {
  const Bytes bytes = dispatch(dtype, [&]<typename T>(T) { return bytes_of<T>(o, capacity); });
  const double block = block_flops(o), head = head_flops(o);
  std::vector<UnitCost> units = {{.kept_bytes = bytes.tokens, .scratch_bytes = bytes.common_scratch}};
  units.insert(units.end(), o.n_layer,
               {.forward_flops = block,
                .backward_flops = 2 * block,
                .repeated_flops = repeated_flops(o),
                .input_bytes = bytes.stream,
                .kept_bytes = bytes.block,
                .scratch_bytes = bytes.common_scratch + bytes.block_scratch});
  units.push_back({.forward_flops = head,
                   .backward_flops = 2 * head,
                   .input_bytes = bytes.stream,
                   .kept_bytes = bytes.head,
                   .scratch_bytes = bytes.common_scratch + bytes.head_scratch});
  if (o.has_copied_embedding()) units.push_back({});  // its products are the head's
  return units;
}

}  // namespace shoal::model::gpt
