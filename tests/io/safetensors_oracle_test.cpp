// SPDX-License-Identifier: Apache-2.0
// A GPT-2 that Hugging Face's transformers wrote.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "io/scratch.hpp"
#include "shoal/io/safetensors.hpp"

namespace shoal::test {
namespace {

std::filesystem::path oracle() {
  const char* shared = std::getenv("SHOAL_SHARED");
  const char* source = std::getenv("SHOAL_SOURCE");
  const std::filesystem::path root = shared != nullptr   ? std::filesystem::path(shared)
                                     : source != nullptr ? std::filesystem::path(source) / ".." / "shared"
                                                         : "shared";
  return root / "oracles" / "hf-gpt2" / "tiny";
}

TEST(SafetensorsOracle, AModelOfTransformersIsRead) {
  if (!std::filesystem::exists(oracle())) {
    std::printf("SKIPPED: %s is not there; files of transformers are not tested\n", oracle().c_str());
    GTEST_SKIP();
  }
  const io::Safetensors file(oracle());
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

}  // namespace
}  // namespace shoal::test
