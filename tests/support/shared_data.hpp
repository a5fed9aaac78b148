// SPDX-License-Identifier: Apache-2.0
// Reference data of other programs, which need not be there: $SHOAL_SHARED, or ../shared beside the source tree.
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

/// Leaves the test out, or all tests of a fixture whose SetUp() says it, where the file is missing.
#define SHOAL_NEED(file)              \
  if (!std::filesystem::exists(file)) \
  GTEST_SKIP() << std::filesystem::path(file).string() << " is not there (SHOAL_SHARED names the shared folder)"
