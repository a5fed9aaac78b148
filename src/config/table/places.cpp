// SPDX-License-Identifier: Apache-2.0
#include "shoal/config/places.hpp"

namespace shoal::config {

std::string Places::of(std::string_view option) const {
  const auto place = places_.find(option);
  return place == places_.end() ? std::string() : place->second;
}

}  // namespace shoal::config
