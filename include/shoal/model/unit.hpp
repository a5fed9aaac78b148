// SPDX-License-Identifier: Apache-2.0
// A unit is what is gathered, reduced and released together: a transformer block, the embeddings, the head. It owns one
// flat buffer per state; named tensors are views into it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::model {

/// Tensors start on borders of this many elements, so that checksums over pieces of 16 do not depend on how a unit is cut
/// into shards (which are whole pieces of 256). What lies between two tensors is zero and stays zero.
inline constexpr std::size_t tensor_alignment = 16;

struct Parameter {
  std::string name;                ///< Hugging Face's name where there is one
  std::vector<std::size_t> shape;  ///< linear weights are [in, out]
  std::size_t offset = 0;          ///< of its first element in the unit's flat buffer
  float initial_std = 0;           ///< normal with this deviation; 0: constant
  float initial_constant = 0;
  std::size_t elements() const;
  Range range() const { return {offset, offset + elements()}; }
  bool is_vector() const { return shape.size() < 2; }
};

struct UnitLayout {
  std::string name;
  std::vector<Parameter> parameters;
  std::size_t elements = 0;  ///< of the flat buffer, gaps included: a multiple of tensor_alignment
  /// Its gradient is begun before its turn in backward: another unit's gradient is completed between the first call of
  /// UnitAccess::gradient() and gradient_complete(). So with a tied embedding, whose gradient the head begins.
  bool early_gradient = false;

  /// Appends a tensor; returns its index in parameters.
  std::size_t add(std::string name, std::vector<std::size_t> shape, float initial_std, float initial_constant = 0);
  /// Elements of tensors alone, without gaps.
  std::size_t parameter_count() const;
};

/// The initial values of elements `range` of the unit's flat buffer (gaps: 0), a function of (seed, tensor name, element)
/// alone. values.size() == range.size().
void initialize(const UnitLayout& unit, std::uint64_t seed, Range range, Span<float> values);

}  // namespace shoal::model
