// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/embedding.hpp"

#include <algorithm>

#include "simd.hpp"
#include "tiles.hpp"

namespace shoal::kernels {

using simd::Floats;
using simd::for_vectors;
using simd::load;
using simd::store;

template <typename T>
void embedding_forward(std::size_t B, std::size_t T_, std::size_t C, const std::int32_t* tokens, const T* wte, const T* wpe,
                       T* x) {
  for_rows("embedding_forward", B * T_, C, [=](std::size_t row) {
    const T* const token = wte + static_cast<std::size_t>(tokens[row]) * C;
    const T* const position = wpe == nullptr ? nullptr : wpe + row % T_ * C;
    T* const sum = x + row * C;
    for_vectors(C, [=](std::size_t i, auto part) {
      const Floats v = load(token + i, part);
      store(sum + i, position == nullptr ? v : v + load(position + i, part), part);
    });
  });
}

// Many rows may go to one token, so threads share out columns: each adds its columns of all rows, in their order.
template <typename T>
void embedding_backward(std::size_t B, std::size_t T_, std::size_t C, const std::int32_t* tokens, const T* dx, float* dwte,
                        float* dwpe) {
  constexpr std::size_t columns_per_tile = 192;
  for_tiles("embedding_backward", (C + columns_per_tile - 1) / columns_per_tile, [=](std::size_t tile) {
    const std::size_t begin = tile * columns_per_tile;
    const std::size_t columns = std::min(columns_per_tile, C - begin);
    for (std::size_t row = 0; row < B * T_; ++row) {
      const T* const gradient = dx + row * C + begin;
      float* const token = dwte + static_cast<std::size_t>(tokens[row]) * C + begin;
      float* const position = dwpe == nullptr ? nullptr : dwpe + row % T_ * C + begin;
      const bool first_sample = row < T_;
      for_vectors(columns, [=](std::size_t i, auto part) {
        const Floats d = load(gradient + i, part);
        store(token + i, load(token + i, part) + d, part);
        if (position != nullptr) store(position + i, first_sample ? d : load(position + i, part) + d, part);
      });
    }
  });
}

template void embedding_forward<float>(std::size_t, std::size_t, std::size_t, const std::int32_t*, const float*,
                                       const float*, float*);
template void embedding_forward<bf16>(std::size_t, std::size_t, std::size_t, const std::int32_t*, const bf16*, const bf16*,
                                      bf16*);
template void embedding_forward<f16>(std::size_t, std::size_t, std::size_t, const std::int32_t*, const f16*, const f16*,
                                     f16*);
template void embedding_backward<float>(std::size_t, std::size_t, std::size_t, const std::int32_t*, const float*, float*,
                                        float*);
template void embedding_backward<bf16>(std::size_t, std::size_t, std::size_t, const std::int32_t*, const bf16*, float*,
                                       float*);
template void embedding_backward<f16>(std::size_t, std::size_t, std::size_t, const std::int32_t*, const f16*, float*,
                                      float*);

}  // namespace shoal::kernels
