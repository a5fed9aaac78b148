// SPDX-License-Identifier: Apache-2.0
// A unit is what is gathered, reduced and released together, like an FSDP unit: a transformer block, the embeddings, the
// head. It has one flat buffer for each state; named tensors are views of it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::model {

/// Tensors start at multiples of this many elements, so that checksums over 16 elements do not depend on how a unit is cut
/// into shards (which consist of granules of 256 elements). The gaps between tensors are zero and stay zero.
inline constexpr std::size_t tensor_alignment = 16;

struct Parameter {
  std::string name;                ///< Hugging Face's name if there is one
  std::vector<std::size_t> shape;  ///< linear weights are [in, out]
  std::size_t offset = 0;          ///< index of its first element in the unit's flat buffer
  float initial_std = 0;           ///< standard deviation of normal initial values; 0: they are constant
  float initial_constant = 0;
  std::size_t elements() const;
  Range range() const { return {offset, offset + elements()}; }
  bool is_vector() const { return shape.size() < 2; }
};

struct UnitLayout {
  std::string name;
  std::vector<Parameter> parameters;
  std::size_t elements = 0;  ///< of the flat buffer with its gaps: a multiple of tensor_alignment
  /// True if other units' gradients are completed between the first call of UnitAccess::gradient() for this unit and its
  /// gradient_complete(). An example is a tied embedding: the head writes the first part of its gradient.
  bool early_gradient = false;
  /// The number of the unit whose parameters this one copies, with the same elements. A copy has no tensors of its own: so
  /// it is in no checkpoint, export or checksum, and zero/tied_copies.hpp keeps it equal. Its gradient is a part of that
  /// unit's.
  std::optional<int> copy_of = std::nullopt;

  /// Appends a tensor; returns its index in parameters.
  std::size_t add(std::string name, std::vector<std::size_t> shape, float initial_std, float initial_constant = 0);
  /// Appends a matrix that is followed by rows of zeros, up to `rows` rows. They are a gap: no part of the tensor.
  std::size_t add_with_border(std::string name, std::vector<std::size_t> shape, std::size_t rows, float initial_std);
  /// Number of elements of all tensors, without gaps.
  std::size_t parameter_count() const;
};

/// Computes the initial values of elements `range` of the unit's flat buffer (0 in gaps). A value is a function of seed,
/// tensor name and element only. values.size() must be range.size().
void initialize(const UnitLayout& unit, std::uint64_t seed, Range range, Span<float> values);

}  // namespace shoal::model
