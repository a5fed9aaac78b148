// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/add_bias.hpp"

#include "kernels/portable/launch.hpp"

namespace shoal::kernels::cuda {

template <typename T>
void add_bias(const char* label, const T* bias, Matrix<float> c) {
  portable::for_elements(
      label, c.rows * c.columns, SHOAL_LAMBDA(std::size_t i) {
        c.data[i / c.columns * c.stride + i % c.columns] += static_cast<float>(bias[i % c.columns]);
      });
}

template void add_bias<bf16>(const char*, const bf16*, Matrix<float>);
template void add_bias<f16>(const char*, const f16*, Matrix<float>);

}  // namespace shoal::kernels::cuda
