// SPDX-License-Identifier: Apache-2.0
// What is said of ranks whose libraries differ.
#include "app/setup/device_start.hpp"

#include <gtest/gtest.h>

namespace shoal::app {
namespace of_device_start_test {

TEST(DifferenceOfLibraries, NamesBothVersionsAndTheirRanks) {
  const std::vector<std::string> ranks = {"rank 0 (a)", "rank 1 (a)", "rank 2 (b)", "rank 3 (c)"};
  const std::string older = "CUDA 12.8, cuDNN 9.5.1", newer = "CUDA 12.8, cuDNN 9.8.0";
  EXPECT_EQ(
      difference_of_libraries(ranks, {older, older, newer, newer}),
      "libraries differ (rank 0 (a): CUDA 12.8, cuDNN 9.5.1; rank 2 (b): CUDA 12.8, cuDNN 9.8.0): results may not have "
      "the bits that equal libraries give");
}

TEST(DifferenceOfLibraries, IsEmptyIfAllAreEqual) {
  EXPECT_EQ(difference_of_libraries({"rank 0 (a)"}, {"cuDNN 9.8.0"}), "");
  EXPECT_EQ(difference_of_libraries({"rank 0 (a)", "rank 1 (b)"}, {"cuDNN 9.8.0", "cuDNN 9.8.0"}), "");
}

}  // namespace of_device_start_test
}  // namespace shoal::app
