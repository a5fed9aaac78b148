// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/cpu/vectors/instructions.hpp"
#include "kernels/runtime_environment.hpp"
#include "shoal/kernels/peak.hpp"

namespace shoal::kernels {

TEST(PeakInstructions, AreThoseThatTheProcessorHas) {
  EXPECT_EQ(measured_gflops(Arithmetic::bf16_pairs) > 0, may_use(Instructions::bf16));
  EXPECT_EQ(measured_gflops(Arithmetic::bf16_tiles) > 0, may_use(Instructions::tiles));
}

}  // namespace shoal::kernels
