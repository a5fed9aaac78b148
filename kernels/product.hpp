// SPDX-License-Identifier: Apache-2.0
// One tile's matrix product: what computes it is prepared once a shape and kept for the process' life.
#pragma once

#include <cstddef>
#include <memory>

#include "shoal/base/types.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

/// Everything that may change how a product is computed. Strides count elements between rows as stored.
struct ProductKey {
  bool blocked;     ///< by this folder's own kernels (blocked_product.hpp) rather than the library
  bool transposed;  ///< those compute C' instead, and turn it over: for A' B into floats without bias
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
    const void* added;  ///< of C's stride; C itself, another matrix, or null where nothing is added
    void* c;
    Span<std::byte> workspace;  ///< at least workspace_bytes()
  };
  /// Computed by the calling thread alone, which is number `thread` of its team.
  virtual void operator()(const Operands& operands, int thread) = 0;

  /// Makes room for the arguments of so many threads; before a team calls.
  virtual void prepare(int threads) = 0;
};

/// Made on first use. Not for use inside a team.
Product& product(const ProductKey& key);

std::unique_ptr<Product> make_library_product(const ProductKey& key);
std::unique_ptr<Product> make_blocked_fp32(const ProductKey& key);
std::unique_ptr<Product> make_blocked_bf16(const ProductKey& key);

}  // namespace shoal::kernels
