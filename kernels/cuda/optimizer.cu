// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/cuda/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "shoal/base/error.hpp"

namespace shoal::kernels::cuda {

namespace {

/// The constants of a step, rounded to float on the host, as in kernels/optimizer.cpp.
struct Constants {
  float gradient_scale, keep, beta1, beta2, gain1, gain2, rate, root, epsilon;
};

Constants constants(const AdamWStep& step) {
  return {static_cast<float>(step.gradient_scale),
          static_cast<float>(1.0 - step.learning_rate * step.weight_decay),
          static_cast<float>(step.beta1),
          static_cast<float>(step.beta2),
          static_cast<float>(1.0 - step.beta1),
          static_cast<float>(1.0 - step.beta2),
          static_cast<float>(-step.learning_rate / step.correction1),
          static_cast<float>(1.0 / std::sqrt(step.correction2)),
          static_cast<float>(step.epsilon)};
}

__global__ void adamw_kernel(std::size_t n, Constants c, const float* gradient, AdamWState state, bf16* parameters) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float g = gradient[i] * c.gradient_scale;
    const float m = fmaf(c.beta1, state.first[i], g * c.gain1);
    const float v = fmaf(c.beta2, state.second[i], g * g * c.gain2);
    const float p = fmaf(c.rate, m / fmaf(sqrtf(v), c.root, c.epsilon), state.master[i] * c.keep);
    state.first[i] = m;
    state.second[i] = v;
    state.master[i] = p;
    if (parameters != nullptr) parameters[i] = bf16(p);
  }
}

}  // namespace

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void adamw(std::size_t n, const AdamWStep& step, const float* gradient, const AdamWState& state, bf16* parameters) {
  if (n == 0) return;
  constexpr unsigned block = 256;
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>((n + block - 1) / block, 65535));
  adamw_kernel<<<blocks, block>>>(n, constants(step), gradient, state, parameters);
  const cudaError_t status = cudaGetLastError();
  require(status == cudaSuccess, "adamw on the GPU: ", cudaGetErrorString(status));
}

}  // namespace shoal::kernels::cuda
