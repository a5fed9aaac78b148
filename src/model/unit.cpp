// SPDX-License-Identifier: Apache-2.0
#include "shoal/model/unit.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/base/philox.hpp"

namespace shoal::model {

namespace {

constexpr std::uint64_t initial_values_stream = 0x9AE16A3B2F90404FU;  // differs from the streams of dropout and sampling

/// FNV-1a (Fowler, Noll, Vo) of a tensor's name. In contrast to std::hash it is the same on every machine.
std::uint64_t hash(std::string_view name) {
  std::uint64_t h = 0xCBF29CE484222325U;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return h;
}

/// Normal random numbers for elements `range` of one tensor. Four neighbouring elements use one Philox call.
void normal(std::uint64_t seed, std::uint64_t tensor, float deviation, Range range, float* values) {
  const auto name_low = static_cast<std::uint32_t>(tensor);
  const auto name_high = static_cast<std::uint32_t>(tensor >> 32U);
  for (std::size_t group = range.begin / 4; group * 4 < range.end; ++group) {
    const Philox4 bits =
        philox(seed ^ initial_values_stream,
               {static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32U), name_low, name_high});
    const auto first = box_muller(bits[0], bits[1]);
    const auto second = box_muller(bits[2], bits[3]);
    const std::array<double, 4> four = {first[0], first[1], second[0], second[1]};
    const Range wanted = intersection(range, {group * 4, group * 4 + 4});
    for (std::size_t e = wanted.begin; e < wanted.end; ++e) {
      values[e - range.begin] = static_cast<float>(static_cast<double>(deviation) * four[e - group * 4]);
    }
  }
}

}  // namespace

std::size_t Parameter::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

std::size_t UnitLayout::add(std::string tensor, std::vector<std::size_t> shape, float initial_std, float initial_constant) {
  parameters.push_back({std::move(tensor), std::move(shape), elements, initial_std, initial_constant});
  elements = round_up(parameters.back().range().end, tensor_alignment);
  return parameters.size() - 1;
}

std::size_t UnitLayout::add_with_border(std::string tensor, std::vector<std::size_t> shape, std::size_t rows,
                                        float initial_std) {
  const std::size_t index = add(std::move(tensor), std::move(shape), initial_std);
  const Parameter& p = parameters[index];
  require(p.shape.size() == 2 && rows >= p.shape[0], p.name, ": ", rows, " rows for a matrix of ", p.shape[0]);
  elements = round_up(p.offset + rows * p.shape[1], tensor_alignment);
  return index;
}

std::size_t UnitLayout::parameter_count() const {
  std::size_t count = 0;
  for (const Parameter& p : parameters) count += p.elements();
  return count;
}

void initialize(const UnitLayout& unit, std::uint64_t seed, Range range, Span<float> values) {
  require(values.size() == range.size() && range.end <= unit.elements, unit.name, ": ", values.size(),
          " values for elements ", range.begin, " to ", range.end, " of ", unit.elements);
  std::fill(values.begin(), values.end(), 0.0F);
  for (const Parameter& p : unit.parameters) {
    const Range wanted = intersection(range, p.range());
    if (wanted.empty()) continue;
    float* const at = values.data() + (wanted.begin - range.begin);
    if (p.initial_std > 0) {
      normal(seed, hash(p.name), p.initial_std, {wanted.begin - p.offset, wanted.end - p.offset}, at);
    } else {
      std::fill_n(at, wanted.size(), p.initial_constant);
    }
  }
}

}  // namespace shoal::model
