// SPDX-License-Identifier: Apache-2.0
// Starts the kernels, with one thread, for all tests of a program that includes this.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "shoal/kernels/runtime.hpp"

namespace shoal::model::test {

class KernelsEnvironment : public ::testing::Environment {
 public:
  void SetUp() override { runtime_ = std::make_unique<kernels::Runtime>(1); }
  void TearDown() override { runtime_.reset(); }

 private:
  std::unique_ptr<kernels::Runtime> runtime_;
};

inline ::testing::Environment* const kernels_environment = ::testing::AddGlobalTestEnvironment(new KernelsEnvironment);

}  // namespace shoal::model::test
