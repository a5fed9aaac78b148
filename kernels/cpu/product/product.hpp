// SPDX-License-Identifier: Apache-2.0
// The matrix product of one tile of C. The object that computes it is created once for each shape and kept until the process
// ends.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/cpu/product/multiplier.hpp"

namespace shoal::kernels {

/// Everything that determines how a product is computed. Strides are elements between the rows as stored.
struct ProductKey {
  Multiplier by;    ///< not Multiplier::widened
  bool transposed;  ///< by tiles only: computes C' and transposes it, for A' B into floats without bias
  std::size_t m, n, k;
  std::size_t a_stride, b_stride, c_stride;
  Transpose a, b;
  DType type, result;
  bool accumulate, bias;
  bool operator==(const ProductKey&) const = default;
};

class Product {
 public:
  Product() = default;
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  virtual ~Product() = default;

  virtual std::size_t workspace_bytes() const = 0;

  struct Operands {
    const void *a, *b, *bias;
    const void* added;  ///< with C's stride: C itself, another matrix, or null if nothing is added
    void* c;
    Span<std::byte> workspace;  ///< at least workspace_bytes()
  };
  /// The calling thread computes the product. `thread` is its number in the team.
  virtual void operator()(const Operands& operands, int thread) = 0;

  /// Allocates the arguments of this many threads. Must be called before a team of threads calls the product.
  virtual void prepare(int threads) = 0;
};

/// The product for this key, created on first use. Must not be called inside a team of threads.
Product& product(const ProductKey& key);

std::unique_ptr<Product> make_library_product(const ProductKey& key);
std::unique_ptr<Product> make_blocked_fp32(const ProductKey& key);    ///< by AMX
std::unique_ptr<Product> make_blocked_bf16(const ProductKey& key);    ///< by AMX
std::unique_ptr<Product> make_blocked_pairs(const ProductKey& key);   ///< of bf16, by AVX512_BF16
std::unique_ptr<Product> make_blocked_floats(const ProductKey& key);  ///< of any type, by AVX2

}  // namespace shoal::kernels
