// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/state.hpp"

#include <gtest/gtest.h>

namespace shoal {
namespace of_state_test {

TEST(State, AShapeAsText) {
  EXPECT_EQ(shape_text({50257, 768}), "50257 x 768");
  EXPECT_EQ(shape_text({7}), "7");
  EXPECT_EQ(shape_text({2, 0, 3}), "2 x 0 x 3");
  EXPECT_EQ(shape_text({}), "");
}

}  // namespace of_state_test
}  // namespace shoal
