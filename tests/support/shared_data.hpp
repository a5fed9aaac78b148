// SPDX-License-Identifier: Apache-2.0
// Reference data of other programs, in the folder $SHOAL_SHARED, or shared/ beside the source tree. Tests that need them are
// skipped if they are missing.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace shoal::test {

inline std::filesystem::path source_tree() {
  const char* const source = std::getenv("SHOAL_SOURCE");
  return source != nullptr ? std::filesystem::path(source)
                           : std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
}

inline std::filesystem::path shared_data(const std::filesystem::path& name) {
  const char* const shared = std::getenv("SHOAL_SHARED");
  return (shared != nullptr ? std::filesystem::path(shared) : source_tree() / ".." / "shared") / name;
}

}  // namespace shoal::test

/// Skips the test if the file is missing; in SetUp() of a fixture, all tests of the fixture.
#define SHOAL_NEED(file)              \
  if (!std::filesystem::exists(file)) \
  GTEST_SKIP() << std::filesystem::path(file).string() << " is missing (SHOAL_SHARED names the shared folder)"
