// SPDX-License-Identifier: Apache-2.0
// What a trace says of its run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shoal/comm/world.hpp"

namespace shoal::io {

struct TraceHeader {
  std::string version;
  std::map<std::string, std::string> options, machine;
  std::vector<std::string> units;
  std::vector<comm::GroupKind> groups;
  std::vector<std::uint64_t> unit_elements;  ///< number of parameters of each unit
  std::int64_t parameters = 0;               ///< of the model
  std::string data;                          ///< what it is trained on
  std::vector<std::string> changed;          ///< names of the options that differ from their defaults
};

}  // namespace shoal::io
