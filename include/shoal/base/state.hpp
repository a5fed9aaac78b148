// SPDX-License-Identifier: Apache-2.0
// What a checkpoint is a list of: parts of logical tensors, by name and shape.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal {

/// Elements `range` of a logical tensor (row-major) that this rank holds.
struct NamedSlice {
  std::string dataset;  ///< absolute: "/parameters/transformer.wte.weight", "/moments/first/..."
  std::vector<std::size_t> shape;
  Range range;
  Span<float> values;  ///< range.size() elements; read when saving, written when loading
};

inline void append(std::vector<NamedSlice>& slices, std::vector<NamedSlice> more) {
  slices.insert(slices.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// "50257 x 768": a shape as messages and tables show it.
std::string shape_text(const std::vector<std::size_t>& shape);

}  // namespace shoal
