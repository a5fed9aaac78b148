// SPDX-License-Identifier: Apache-2.0
// Reads a GPT-2 that Hugging Face's transformers wrote.
#include <cmath>
#include <filesystem>

#include "io/scratch.hpp"
#include "shoal/io/safetensors.hpp"
#include "support/shared_data.hpp"

namespace shoal::test {
namespace of_safetensors_oracle_test {

TEST(SafetensorsOracle, AModelOfTransformersIsRead) {
  const std::filesystem::path oracle = shared_data("oracles/hf-gpt2/tiny");
  SHOAL_NEED(oracle);
  const io::Safetensors file(oracle);
  bool embedding = false;
  for (const auto& [name, entry] : file.entries()) {
    EXPECT_EQ(entry.dtype, "F32") << name;
    std::vector<float> values(entry.elements());
    file.read(name, {0, values.size()}, values);
    double sum = 0;
    for (const float value : values) sum += std::abs(value);
    EXPECT_TRUE(std::isfinite(sum)) << name;
    embedding = embedding || (name.ends_with("wte.weight") && entry.shape.size() == 2 && sum > 0);
  }
  EXPECT_TRUE(embedding);
}

}  // namespace of_safetensors_oracle_test
}  // namespace shoal::test
