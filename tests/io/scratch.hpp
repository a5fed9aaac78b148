// SPDX-License-Identifier: Apache-2.0
// Used by all tests of files: a temporary directory, whole files as bytes, and the texts of errors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal::test {

/// One directory for all ranks of the group, made and removed by rank 0. Both are collective.
class Scratch {
 public:
  explicit Scratch(comm::Communicator* group = nullptr) : group_(group) {
    std::array<char, 64> name{};
    std::string pattern = (std::filesystem::temp_directory_path() / "shoal-io-XXXXXX").string();
    if (owner()) {
      if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error(pattern + ": cannot be created");
      pattern.copy(name.data(), name.size() - 1);
    }
    if (group_ != nullptr) group_->broadcast(comm::bytes_of(Span<char>(name)), 0).wait();
    path_ = name.data();
  }
  ~Scratch() {
    if (group_ != nullptr) group_->barrier().wait();
    std::error_code ignored;
    if (owner()) std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }
  bool owner() const { return group_ == nullptr || group_->rank() == 0; }

 private:
  comm::Communicator* group_;
  std::filesystem::path path_;
};

inline std::string read_all(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_all(const std::filesystem::path& file, const std::string& content) {
  std::ofstream(file, std::ios::binary) << content;
}

/// The text of the error that `act` throws; empty if it throws none.
template <typename Act>
std::string error_of(Act&& act, Exit code = Exit::bad_input) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(error.seen(), Seen::everywhere) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "";
}

}  // namespace shoal::test
