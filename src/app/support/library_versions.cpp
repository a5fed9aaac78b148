// SPDX-License-Identifier: Apache-2.0
#include "app/support/library_versions.hpp"

#include <nlohmann/json.hpp>

#include "shoal/base/error.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"
#include "shoal/io/hdf5.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::app {

std::vector<std::pair<std::string, std::string>> library_versions() {
  std::vector<std::pair<std::string, std::string>> versions = {comm::library_version(), io::library_version(),
                                                               config::library_version()};
  if (auto nccl = comm::device_library_version(); !nccl.second.empty()) versions.push_back(std::move(nccl));
  for (auto& library : kernels::library_versions()) versions.push_back(std::move(library));
  versions.emplace_back("nlohmann-json", text(NLOHMANN_JSON_VERSION_MAJOR, ".", NLOHMANN_JSON_VERSION_MINOR, ".",
                                              NLOHMANN_JSON_VERSION_PATCH));
  return versions;
}

}  // namespace shoal::app
