// SPDX-License-Identifier: Apache-2.0
// Compares the GPU's AdamW with the host's, if there is a GPU.
#include "shoal/kernels/cuda/optimizer.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/runtime_environment.hpp"

namespace shoal::kernels {
namespace {

/// A copy of host values on the device, as long as it lives.
class OnDevice {
 public:
  explicit OnDevice(const std::vector<float>& values) : count_(values.size()) {
    EXPECT_EQ(cudaMalloc(&data_, count_ * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), count_ * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  float* data() { return static_cast<float*>(data_); }
  std::vector<float> host() const {
    std::vector<float> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  std::size_t count_;
  void* data_ = nullptr;
};

TEST(CudaAdamW, IsTheHostsUpdate) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no GPU here; the CUDA kernels were compiled and linked only";
  constexpr std::size_t n = 1000;
  std::vector<float> gradient(n), master(n), first(n, 0.0F), second(n, 0.0F);
  for (std::size_t i = 0; i < n; ++i) {
    gradient[i] = std::sin(static_cast<float>(i));
    master[i] = std::cos(static_cast<float>(i));
  }
  OnDevice g(gradient), p(master), m(first), v(second);
  for (int t = 1; t <= 10; ++t) {
    const AdamWStep step{1e-3, 0.9, 0.95, 1e-8, 0.1, 1 - std::pow(0.9, t), 1 - std::pow(0.95, t), 0.5};
    adamw(n, step, gradient.data(), {.master = master.data(), .first = first.data(), .second = second.data()}, {});
    cuda::adamw(n, step, g.data(), {.master = p.data(), .first = m.data(), .second = v.data()}, nullptr);
  }
  const std::vector<float> updated = p.host();
  // Division and square root are correctly rounded on both. So ten updates of at most lr differ by a few roundings of p.
  for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(updated[i], master[i], 10 * 0x1p-24 * 2) << i;
}

}  // namespace
}  // namespace shoal::kernels
