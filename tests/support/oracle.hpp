// SPDX-License-Identifier: Apache-2.0
// Reads reference data (shared_data.hpp) from HDF5 and JSON files. Tests that include it link shoal_hdf5 and
// nlohmann_json::nlohmann_json.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "shoal/base/error.hpp"
#include "support/shared_data.hpp"

namespace shoal::test {

inline nlohmann::json read_json(const std::filesystem::path& file) { return nlohmann::json::parse(std::ifstream(file)); }

class Hdf5 {
 public:
  explicit Hdf5(const std::filesystem::path& file) : file_(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)) {
    require(file_ >= 0, file.string(), ": cannot be opened");
  }
  ~Hdf5() { H5Fclose(file_); }
  Hdf5(const Hdf5&) = delete;
  Hdf5& operator=(const Hdf5&) = delete;

  template <typename V>
  std::vector<V> dataset(const std::string& name) const {
    const hid_t set = H5Dopen2(file_, name.c_str(), H5P_DEFAULT);
    require(set >= 0, name, ": no such dataset");
    const hid_t space = H5Dget_space(set);
    std::vector<V> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    require(H5Dread(set, type<V>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0, name, ": cannot be read");
    H5Sclose(space);
    H5Dclose(set);
    return values;
  }
  /// Returns an attribute of the file, or of a group in it.
  double number(const std::string& attribute, const std::string& group = "/") const {
    const hid_t at = H5Aopen_by_name(file_, group.c_str(), attribute.c_str(), H5P_DEFAULT, H5P_DEFAULT);
    require(at >= 0, group, ": no attribute ", attribute);
    double value = 0;
    require(H5Aread(at, H5T_NATIVE_DOUBLE, &value) >= 0, attribute, ": cannot be read");
    H5Aclose(at);
    return value;
  }

 private:
  template <typename V>
  static hid_t type() {
    if constexpr (std::is_same_v<V, float>) return H5T_NATIVE_FLOAT;
    if constexpr (std::is_same_v<V, double>) return H5T_NATIVE_DOUBLE;
    if constexpr (std::is_same_v<V, std::int32_t>) return H5T_NATIVE_INT32;
  }
  hid_t file_;
};

}  // namespace shoal::test
