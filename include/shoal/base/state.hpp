// SPDX-License-Identifier: Apache-2.0
// A checkpoint is a list of these: parts of logical tensors, by name and shape.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal {

/// The elements `range` of a logical tensor (in row-major order), which this rank holds.
struct NamedSlice {
  std::string dataset;  ///< path in the checkpoint: "/parameters/transformer.wte.weight", "/moments/first/..."
  std::vector<std::size_t> shape;
  Range range;
  Span<float> values;  ///< range.size() elements; read by a save, written by a load
};

inline void append(std::vector<NamedSlice>& slices, std::vector<NamedSlice> more) {
  slices.insert(slices.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// Returns a shape as messages and tables show it: "50257 x 768".
std::string shape_text(const std::vector<std::size_t>& shape);

}  // namespace shoal
