// SPDX-License-Identifier: Apache-2.0
// Which of the tuned kernels computes a matrix product. That depends on the shape and the type of the whole product and on
// the processor, never on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/types.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

enum class Multiplier : std::uint8_t {
  library,  ///< oneDNN
  widened,  ///< panels of 16-bit operands are converted to float: widened.hpp
  floats,   ///< multiply-adds of AVX2: blocked_floats.cpp
  pairs,    ///< pairs of bf16, by AVX512_BF16: blocked_pairs.cpp
  tiles,    ///< tiles of bf16, by AMX: blocked_bf16.cpp, blocked_fp32.cpp
};

/// What a process can multiply with: what its processor has and ONEDNN_MAX_CPU_ISA allows. Tests pass those of other
/// processors.
struct Abilities {
  bool floats, pairs, tiles;  ///< as above, and this build has the code
  bool bf16;                  ///< oneDNN multiplies bf16 in less time than floats
};
Abilities abilities();

struct ProductShape {
  std::size_t m, n, k;
  Transpose a, b;
  DType type;    ///< of A and B
  DType result;  ///< of C
};

template <typename T, typename R>
ProductShape product_shape(const MatmulShape& s) {
  return {.m = s.m, .n = s.n, .k = s.k, .a = s.transpose_a, .b = s.transpose_b, .type = dtype_of<T>, .result = dtype_of<R>};
}

/// The longest sum over the whole of which blocked_product.hpp packs A. Of longer ones only few micro-panels would fit the
/// caches.
inline constexpr std::size_t longest_packed = 4096;

Multiplier multiplier_of(const ProductShape& shape, const Abilities& can = abilities());

/// Returns true if it multiplies operands of this type.
bool takes(Multiplier multiplier, DType type);

/// Returns true if it is a micro-kernel of blocked_product.hpp.
constexpr bool is_blocked(Multiplier m) {
  return m == Multiplier::floats || m == Multiplier::pairs || m == Multiplier::tiles;
}

}  // namespace shoal::kernels
