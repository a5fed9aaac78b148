// SPDX-License-Identifier: Apache-2.0
// Tensors sharded over ranks, with values that identify tensor and element.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "shoal/io/checkpoint.hpp"

namespace shoal::test {

inline float value_at(const std::string& name, std::size_t i) {
  return static_cast<float>(i) * 0.5F + static_cast<float>(std::hash<std::string>{}(name) % 1000);
}

inline std::size_t elements_of(const std::vector<std::size_t>& shape) {
  std::size_t n = 1;
  for (const std::size_t extent : shape) n *= extent;
  return n;
}

/// Slices and the memory behind them.
struct Tensors {
  std::vector<io::TensorSlice> slices;
  std::vector<std::unique_ptr<std::vector<float>>> memory;

  void add(const std::string& name, const std::vector<std::size_t>& shape, Range range, bool fill) {
    memory.push_back(std::make_unique<std::vector<float>>(range.size(), -1.0F));
    if (fill) {
      for (std::size_t i = 0; i < range.size(); ++i) (*memory.back())[i] = value_at(name, range.begin + i);
    }
    slices.push_back({name, shape, range, *memory.back()});
  }
};

/// The part of rank `rank` of `parts`, in multiples of 16 elements. The parts are not equal. Ranks beyond `parts`, and the
/// last ranks for small tensors, get nothing.
inline Range part_of(std::size_t elements, int rank, int parts) {
  if (rank >= parts) return {elements, elements};
  const std::size_t per = round_up((elements + static_cast<std::size_t>(parts) - 1) / static_cast<std::size_t>(parts), 16);
  const auto r = static_cast<std::size_t>(rank);
  return {std::min(elements, per * r), std::min(elements, per * (r + 1))};
}

struct Shape {
  const char* name;
  std::vector<std::size_t> shape;
};

inline const std::vector<Shape>& small_model() {
  static const std::vector<Shape> shapes = {
      {"/parameters/transformer.wte.weight", {65, 24}},          {"/parameters/transformer.h.0.attn.c_attn.bias", {7}},
      {"/parameters/transformer.h.0.mlp.c_fc.weight", {24, 96}}, {"/parameters/scale", {}},
      {"/moments/first/transformer.wte.weight", {65, 24}},       {"/moments/second/transformer.wte.weight", {65, 24}}};
  return shapes;
}

inline Tensors cut(const std::vector<Shape>& model, int rank, int parts, bool fill) {
  Tensors tensors;
  for (const Shape& s : model) tensors.add(s.name, s.shape, part_of(elements_of(s.shape), rank, parts), fill);
  return tensors;
}

}  // namespace shoal::test
