// SPDX-License-Identifier: Apache-2.0
// Kinds of DeepSpeed configurations that are in use elsewhere (tests/config/deepspeed/in_use, all written for this test) go
// with the deck that has the model alone. Where a feature does not exist, it is the one thing that is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/config/options.hpp"
#include "support/shared_data.hpp"

namespace shoal::config {
namespace of_deepspeed_in_use_test {

namespace fs = std::filesystem;

TEST(DeepSpeedInUse, ConfigurationsGoWithTheModelAlone) {
  const std::map<std::string, std::vector<std::string>> missing = {{"one_bit_adam.json", {"optimizer.type"}}};
  const std::string deck = test::source_tree() / "inputs/model.cfg";
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(test::source_tree() / "tests/config/deepspeed/in_use")) {
    const std::string json = entry.path(), name = entry.path().filename();
    SCOPED_TRACE(name);
    ++files;
    const std::vector<const char*> words = {deck.c_str(), "--deepspeed", json.c_str(), "--dry-run"};
    try {
      Invocation run = parse({.name = "train", .summary = ""}, static_cast<int>(words.size()), words.data());
      validate(run, 2);
      const auto found = missing.find(name);
      EXPECT_EQ(run.not_built, found == missing.end() ? std::vector<std::string>{} : found->second);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_EQ(files, 8U);
}

}  // namespace of_deepspeed_in_use_test
}  // namespace shoal::config
