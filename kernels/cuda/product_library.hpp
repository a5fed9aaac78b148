// SPDX-License-Identifier: Apache-2.0
// What matmul.cpp asks of a library: a product, and algorithms for it. Defined by product_cublaslt.cpp; tests define their
// own.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "shoal/kernels/products.hpp"

namespace shoal::kernels::cuda {

/// An algorithm as the library stores it: plain bytes, which mean the same to other processes with the same version of the
/// library.
struct Algorithm {
  std::array<std::byte, 64> bytes{};
};

/// Bytes of workspace that algorithms may use; its address is a multiple of workspace_alignment.
inline constexpr std::size_t workspace_bytes = std::size_t{32} << 20U, workspace_alignment = 256;

struct ProductOperands {
  const void *a = nullptr, *b = nullptr;
  const void* bias = nullptr;   ///< null: none
  const void* added = nullptr;  ///< null: none
  void* u = nullptr;            ///< of an activation
  void* c = nullptr;
};

/// A product of one shape. All strides of its Product are given.
class LibraryProduct {
 public:
  LibraryProduct() = default;
  virtual ~LibraryProduct() = default;
  LibraryProduct(const LibraryProduct&) = delete;
  LibraryProduct& operator=(const LibraryProduct&) = delete;
  /// Chooses an algorithm without measuring, so that equal GPUs choose the same one. It adds terms in a fixed order. Returns
  /// why there is none; empty if there is one.
  virtual std::string choose(Algorithm& algorithm) = 0;
  /// Why the algorithm cannot compute this product on this GPU; empty if it can.
  virtual std::string problem(const Algorithm& algorithm) = 0;
  /// Enqueues it on the current queue. label: for errors.
  virtual void run(const char* label, const Algorithm& algorithm, const ProductOperands& operands, std::byte* workspace) = 0;
};

/// tf32: fp32 matrices may be multiplied in TF32.
std::unique_ptr<LibraryProduct> make_product(const Product& product, bool tf32);

/// "cuBLASLt 13.1.0", which differs between versions whose algorithms are not the same.
std::string product_library();
/// "GPU 0 (NVIDIA H100 80GB HBM3)".
std::string product_device();

}  // namespace shoal::kernels::cuda
