// SPDX-License-Identifier: Apache-2.0
// main() of tests that run on one process.
#include <cstdio>
#include <exception>

#include "support/one_file.hpp"
#include "support/skips.hpp"
#include "support/with_device.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    shoal::test::choose_file(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  testing::UnitTest::GetInstance()->listeners().Append(new shoal::test::PrintsSkips);
  return shoal::test::with_device([] { return shoal::test::exit_code(RUN_ALL_TESTS()); });
}
