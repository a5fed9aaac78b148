// SPDX-License-Identifier: Apache-2.0
// Starts Kokkos for all tests of a program, with one thread or with the environment's SHOAL_TEST_THREADS. Sets the number of
// threads for some tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "shoal/device/kind.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels {

/// The environment's SHOAL_TEST_THREADS, or 1.
inline int test_threads() {
  const char* const threads = std::getenv("SHOAL_TEST_THREADS");
  return threads == nullptr ? 1 : std::atoi(threads);
}

class RuntimeEnvironment : public testing::Environment {
 public:
  void SetUp() override { runtime_.emplace(test_threads()); }
  void TearDown() override { runtime_.reset(); }

 private:
  std::optional<Runtime> runtime_;
};

inline testing::Environment* const runtime_environment = testing::AddGlobalTestEnvironment(new RuntimeEnvironment);

/// Sets this number of threads as long as it lives; then there is one thread again. On a GPU, which has no threads to set,
/// tests that compare results with one thread and with several compare two runs.
class WithThreads {
 public:
  explicit WithThreads(int threads) {
    if (device::kind() != device::DeviceKind::cuda) set_threads(threads);
  }
  ~WithThreads() { set_threads(1); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;
};

}  // namespace shoal::kernels
