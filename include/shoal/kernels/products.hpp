// SPDX-License-Identifier: Apache-2.0
// The list of a model's matrix products. It serves the plan, which needs the largest workspace, and GPUs, where an algorithm
// is chosen for each product before the first step: rank 0 chooses, and all ranks use its choice, so that results do not
// depend on which rank computes. On processors an algorithm follows from the product, and the functions below do nothing.
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

/// The addresses of all operands are multiples of this many bytes in an `aligned` product.
inline constexpr std::size_t operand_alignment = 16;

/// A product that matmul() will be asked for.
struct Product {
  DType operands = DType::f32, result = DType::f32;  ///< of A and B, and of C
  MatmulShape shape;
  /// False: addresses are multiples of the size of an operand's element alone, since the product uses a part of a tensor.
  bool aligned = true;
  auto operator<=>(const Product&) const = default;  // NOLINT(modernize-use-nullptr): it is no pointer
};
template <typename T, typename R>
Product product(const MatmulShape& shape, bool aligned = true) {
  return {dtype_of<T>, dtype_of<R>, shape, aligned};
}

/// "[1024, 768] x [768, 3072] + bias, bf16 to fp32".
std::string describe(const Product& product);

/// What the library of products of this program can do besides.
struct ProductFeatures {
  bool tf32 = false;  ///< multiply fp32 matrices in TF32, whose numbers have 10 bits of mantissa; sums are in fp32
  /// Compute GELU and its derivative within a product (Activation), for results of the type of A and B whose stride is a
  /// multiple of gelu_stride. Their bits may differ from those of kernels/pointwise.hpp.
  bool gelu = false;
};
ProductFeatures product_features();
inline constexpr std::size_t gelu_stride = 8;  ///< elements
/// Whether fp32 matrices are multiplied in TF32: false before the first call. To be called before algorithms are chosen, and
/// with true only if product_features() has it.
void set_tf32(bool on);

/// The workspace that serves each of these products.
std::size_t workspace_bytes(const std::vector<Product>& products);

/// Chooses an algorithm for each product, on this rank's GPU and without measuring: the bytes for use_algorithms(). Fails,
/// and names the product, if there is none. No bytes where there is nothing to choose.
std::vector<std::byte> choose_algorithms(const std::vector<Product>& products);
/// From now on matmul() computes these products by what a rank has chosen for the same list. Fails, with one line, if this
/// rank's GPU or its library cannot.
void use_algorithms(const std::vector<Product>& products, Span<const std::byte> chosen);
/// The same for products of batches that were not planned, such as the last one of an evaluation or a prompt: this rank
/// chooses by itself. Products that have an algorithm keep it.
void choose_missing_algorithms(const std::vector<Product>& products);

}  // namespace shoal::kernels
