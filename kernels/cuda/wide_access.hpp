// SPDX-License-Identifier: Apache-2.0
// Several neighbouring elements that a thread reads or writes at once.
#pragma once

#include <cstdint>

#include "shoal/base/types.hpp"

namespace shoal::kernels::cuda {

template <typename T, unsigned width>
struct alignas(sizeof(T) * width) Pack {
  T at[width];
};

/// Whether packs of this width may begin at `from`. Null is aligned.
template <unsigned width, typename T>
bool aligned(const T* from) {
  return reinterpret_cast<std::uintptr_t>(from) % (sizeof(T) * width) == 0;
}

template <unsigned width, typename T>
__device__ Pack<T, width> load(const T* from) {
  return *reinterpret_cast<const Pack<T, width>*>(from);
}

template <unsigned width, typename T>
__device__ void store(const Pack<T, width>& pack, T* to) {
  *reinterpret_cast<Pack<T, width>*>(to) = pack;
}

}  // namespace shoal::kernels::cuda
