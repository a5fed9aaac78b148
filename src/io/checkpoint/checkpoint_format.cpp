// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/checkpoint_format.hpp"

#include <limits>
#include <sstream>

#include "shoal/base/error.hpp"

namespace shoal::io::checkpoint_format {

std::size_t elements(const std::vector<std::size_t>& shape, const std::string& name) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / sizeof(float) / 2;
  std::size_t product = 1;
  for (const std::size_t extent : shape) {
    require(extent == 0 || product <= most / extent, name, ": shape ", print(shape), " is too large");
    product *= extent;
  }
  return product;
}

std::string print(const std::vector<std::size_t>& shape) {
  std::ostringstream out;
  out << '[';
  for (std::size_t i = 0; i < shape.size(); ++i) out << (i == 0 ? "" : ", ") << shape[i];
  out << ']';
  return out.str();
}

std::string group_of(const std::string& dataset) { return dataset.substr(0, dataset.rfind('/') + 1); }

}  // namespace shoal::io::checkpoint_format
